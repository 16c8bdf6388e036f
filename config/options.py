"""The settings of the process that are flags of `berth run`, and not part of the configuration
file, with kube-scheduler's defaults.

Each group has the name of the group of its flags in `--help`. Durations are in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from .feature_gates import DEFAULTS
from .types import Duration
from .versions import CURRENT, Version

HEALTH_PATHS = ("/healthz", "/readyz", "/livez")


class NamedCertificate(msgspec.Struct, frozen=True):
    """A certificate of `--tls-sni-cert-key`: PEM files, and the domain patterns that they serve.
    Without patterns, the names in the certificate count.
    """

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()


class SecureServing(msgspec.Struct, frozen=True):
    """The address of the HTTPS server and its certificates; nothing is served if `secure_port` is
    0.

    Without `tls_cert_file` and `tls_private_key_file`, the process makes a certificate of its own,
    and keeps it in `cert_dir` if that is set. `tls_cipher_suites` and `tls_min_version` have the
    names of Go's constants; empty means Go's defaults.
    """

    bind_address: str = "0.0.0.0"  # noqa: S104 - kube-scheduler's default; requests are authorized
    secure_port: int = 10259
    cert_dir: str = ""
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    tls_min_version: str = ""
    tls_sni_cert_key: tuple[NamedCertificate, ...] = ()
    permit_address_sharing: bool = False
    permit_port_sharing: bool = False


class Authentication(msgspec.Struct, frozen=True):
    """How the server identifies a client: by a client certificate, by the headers of an
    authenticating proxy, or by a bearer token, which a TokenReview checks with `kubeconfig`.

    Unless `skip_lookup`, authorities and header names that are not set are read from the ConfigMap
    kube-system/extension-apiserver-authentication.
    """

    kubeconfig: str = ""
    skip_lookup: bool = False
    tolerate_lookup_failure: bool = True
    token_webhook_cache_ttl: Duration = Duration(10)
    client_ca_file: str = ""
    requestheader_client_ca_file: str = ""
    requestheader_allowed_names: tuple[str, ...] = ()
    requestheader_username_headers: tuple[str, ...] = ("x-remote-user",)
    requestheader_uid_headers: tuple[str, ...] = ()
    requestheader_group_headers: tuple[str, ...] = ("x-remote-group",)
    requestheader_extra_headers_prefix: tuple[str, ...] = ("x-remote-extra-",)


class Authorization(msgspec.Struct, frozen=True):
    """Who may read a page: members of system:masters, everybody for `always_allow_paths`, and
    otherwise those whom a SubjectAccessReview, sent with `kubeconfig`, allows.
    """

    kubeconfig: str = ""
    always_allow_paths: tuple[str, ...] = HEALTH_PATHS
    webhook_cache_authorized_ttl: Duration = Duration(10)
    webhook_cache_unauthorized_ttl: Duration = Duration(10)


class MetricsOptions(msgspec.Struct, frozen=True):
    """Which metrics are shown. `disabled` are names of families. `allow_labels` maps "family,label"
    to the values that are kept; other values become "unexpected".
    """

    show_hidden_for_version: str = ""
    disabled: tuple[str, ...] = ()
    allow_labels: Mapping[str, frozenset[str]] = {}


class LoggingOptions(msgspec.Struct, frozen=True):
    """How logs are written. `format` is text (klog's) or json. `vmodule` has patterns of file names
    with the verbosity for their lines. With `split_stream`, errors go to standard error and other
    lines to standard output.
    """

    format: str = "text"
    verbosity: int = 0
    vmodule: tuple[tuple[str, int], ...] = ()
    split_stream: bool = False


class Options(msgspec.Struct, frozen=True):
    """The settings of `berth run`. `max_unschedulable` is
    `--pod-max-in-unschedulable-pods-duration`. `version` is the version of Kubernetes to decide as,
    and `feature_gates` has each of its gates and changes with its value.
    Nothing is served if `serving` is None. `flags` are all flags with their values, as /flagz shows
    them. /livez fails if the event loop has stood still for `liveness_stall` seconds. The flight
    recorder keeps its attempts in `recorder_bytes`; it is off if that is 0. It also writes them to
    `recorder_file` with its older files, in `recorder_file_bytes`, unless the path is empty.
    A plugin of a package is switched off after `plugin_failures` failures in a row, or calls that
    take longer than `plugin_call`, or `plugin_attempt` in an attempt; a call is interrupted after
    `plugin_interrupt` seconds. With `reload_plugins`, changed files of plugins are taken into use.
    """

    max_unschedulable: float = 300.0
    version: Version = CURRENT
    feature_gates: Mapping[str, bool] = msgspec.field(default_factory=lambda: DEFAULTS)
    serving: SecureServing | None = None
    authentication: Authentication = Authentication()
    authorization: Authorization = Authorization()
    metrics: MetricsOptions = MetricsOptions()
    flags: Mapping[str, str] = {}
    liveness_stall: float = 60.0
    recorder_bytes: int = 64 << 20
    recorder_file: str = ""
    recorder_file_bytes: int = 256 << 20
    plugin_failures: int = 5
    plugin_call: float = 1.0
    plugin_attempt: float = 2.0
    plugin_interrupt: float = 5.0
    reload_plugins: bool = False
