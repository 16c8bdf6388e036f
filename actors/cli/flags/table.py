"""The flags of `berth run`: those of kube-scheduler 1.36 with their groups and defaults.

`--help`, /flagz and the reference in docs/configuration.md show this table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from berth.config.options import (
    Authentication,
    Authorization,
    LoggingOptions,
    Options,
    SecureServing,
)
from berth.config.types import Duration
from berth.config.versions import CURRENT, VERSIONS

from .flag import Flag, deprecated_flags, flags_that_set
from .kinds import (
    BOOL,
    CERTIFICATES,
    DURATION,
    FILE,
    FLOAT,
    GATES,
    INT,
    INT32,
    INTEGERS,
    IP,
    LEVEL,
    PAIRS,
    QUANTITY,
    STRING,
    STRINGS,
    VERSION,
    VMODULE,
)

_NO_PPROF = "profiles of a Go program are not served; see `berth debug`"
_UNBUFFERED = "berth writes every line at once"
# In the order of kube-scheduler's --help.
GROUPS = {
    "Misc": (
        Flag("config", FILE, "The configuration: a file with a KubeSchedulerConfiguration."),
        Flag("master", STRING, "The URL of the API server; overrides that of the kubeconfig."),
        Flag(
            "unsupported-kube-api-over-localhost",
            BOOL,
            "Reach the API server over localhost.",
            idle="only OpenShift's kube-scheduler has it; use --master",
        ),
        Flag(
            "write-config-to",
            FILE,
            "Write the configuration with all its defaults to this file, and exit.",
        ),
    ),
    "Secure serving": flags_that_set(
        SecureServing(),
        "",
        Flag(
            "bind-address",
            IP,
            "The IP address to serve on; 0.0.0.0 and :: mean all.",
        ),
        Flag(
            "cert-dir",
            FILE,
            "The folder in which to keep the self-made certificate and its key, as"
            " kube-scheduler.crt and kube-scheduler.key. Not used with --tls-cert-file.",
        ),
        Flag(
            "disable-http2-serving",
            BOOL,
            "Do not serve HTTP/2.",
            idle="berth serves HTTP/1.1 only",
        ),
        Flag(
            "http2-max-streams-per-connection",
            INT,
            "How many streams of HTTP/2 a connection may have.",
            idle="berth serves HTTP/1.1 only",
        ),
        Flag(
            "permit-address-sharing",
            BOOL,
            "Set SO_REUSEADDR on the port.",
            idle="it is always set, as by every program in Go",
        ),
        Flag(
            "permit-port-sharing",
            BOOL,
            "Set SO_REUSEPORT on the port, so that several processes can share it.",
        ),
        Flag(
            "secure-port",
            INT,
            "The port for HTTPS: health, metrics, configuration and debug pages. 0 serves nothing.",
        ),
        Flag(
            "tls-cert-file",
            FILE,
            "The server's certificate in PEM, followed by those of its authorities. Without it,"
            " berth makes a certificate.",
        ),
        Flag(
            "tls-cipher-suites",
            STRINGS,
            "The cipher suites to accept, by Go's names. Without it, those that Go accepts.",
        ),
        Flag(
            "tls-curve-preferences",
            INTEGERS,
            "The numbers of the key exchanges to accept.",
            idle="the key exchanges are those of OpenSSL",
        ),
        Flag(
            "tls-min-version",
            STRING,
            "The lowest version of TLS: VersionTLS10, VersionTLS11, VersionTLS12 (if not given) or"
            " VersionTLS13.",
        ),
        Flag(
            "tls-private-key-file",
            FILE,
            "The key of --tls-cert-file in PEM.",
        ),
        Flag(
            "tls-sni-cert-key",
            CERTIFICATES,
            "A certificate and its key for clients that ask for certain names, such as"
            " a.crt,a.key:*.example.com,example.com. Without names, those in the certificate"
            " count. May be repeated.",
        ),
    ),
    "Authentication": flags_that_set(
        Authentication(),
        "authentication-",
        Flag(
            "authentication-kubeconfig",
            FILE,
            "The kubeconfig for TokenReviews. Without it, bearer tokens are not accepted, and no"
            " authority is looked up in the cluster.",
        ),
        Flag(
            "authentication-skip-lookup",
            BOOL,
            "Do not look up authorities and header names in the cluster.",
        ),
        Flag(
            "authentication-token-webhook-cache-ttl",
            DURATION,
            "How long to remember the answer to a TokenReview.",
        ),
        Flag(
            "authentication-tolerate-lookup-failure",
            BOOL,
            "Start even if the lookup in the cluster fails.",
        ),
        Flag(
            "client-ca-file",
            FILE,
            "The authorities of client certificates in PEM. A client is the user that its"
            " certificate's common name says.",
        ),
        Flag(
            "requestheader-allowed-names",
            STRINGS,
            "The common names of proxies that may name the user in headers. Without it, every"
            " certificate of --requestheader-client-ca-file will do.",
        ),
        Flag(
            "requestheader-client-ca-file",
            FILE,
            "The authorities in PEM of proxies that authenticate users.",
        ),
        Flag(
            "requestheader-extra-headers-prefix",
            STRINGS,
            "The prefixes of headers with more about the user.",
        ),
        Flag(
            "requestheader-group-headers",
            STRINGS,
            "The headers with the user's groups.",
        ),
        Flag(
            "requestheader-uid-headers",
            STRINGS,
            "The headers with the user's UID.",
        ),
        Flag(
            "requestheader-username-headers",
            STRINGS,
            "The headers with the user's name.",
        ),
    ),
    "Authorization": flags_that_set(
        Authorization(),
        "authorization-",
        Flag(
            "authorization-always-allow-paths",
            STRINGS,
            "The paths that everybody may read.",
        ),
        Flag(
            "authorization-kubeconfig",
            FILE,
            "The kubeconfig for SubjectAccessReviews. Without it, only the paths that everybody may"
            " read are served.",
        ),
        Flag(
            "authorization-webhook-cache-authorized-ttl",
            DURATION,
            "How long to remember that a SubjectAccessReview allowed a request.",
        ),
        Flag(
            "authorization-webhook-cache-unauthorized-ttl",
            DURATION,
            "How long to remember that a SubjectAccessReview refused a request.",
        ),
    ),
    "Deprecated": deprecated_flags(
        Flag(
            "contention-profiling",
            BOOL,
            "Collect a profile of locks.",
            field="enableContentionProfiling",
            idle=_NO_PPROF,
        ),
        Flag(
            "kube-api-burst",
            INT32,
            "How many requests to send to the API server at once.",
            field="clientConnection.burst",
        ),
        Flag(
            "kube-api-content-type",
            STRING,
            "The encoding of requests to the API server.",
            field="clientConnection.contentType",
            idle="berth speaks JSON",
        ),
        Flag(
            "kube-api-qps",
            FLOAT,
            "How many requests a second to send to the API server on average.",
            field="clientConnection.qps",
        ),
        Flag(
            "kubeconfig",
            FILE,
            "How to reach the API server. Without it and --master, as a pod of the cluster.",
            field="clientConnection.kubeconfig",
        ),
        Flag(
            "pod-max-in-unschedulable-pods-duration",
            DURATION,
            "A pod that has been parked for this long is tried again, even without an event.",
            value=Duration(Options().max_unschedulable),
        ),
        Flag(
            "profiling",
            BOOL,
            "Serve profiles.",
            field="enableProfiling",
            idle=_NO_PPROF,
        ),
    ),
    "Leader election": (
        Flag(
            "leader-elect",
            BOOL,
            "Schedule only while holding the lease.",
            field="leaderElection.leaderElect",
        ),
        Flag(
            "leader-elect-lease-duration",
            DURATION,
            "A standby takes the lease if it has not been renewed for this long.",
            field="leaderElection.leaseDuration",
        ),
        Flag(
            "leader-elect-renew-deadline",
            DURATION,
            "The leader stops if it could not renew the lease for this long. It must be shorter"
            " than the lease duration.",
            field="leaderElection.renewDeadline",
        ),
        Flag(
            "leader-elect-resource-lock",
            STRING,
            "The kind of the lock: leases. Deprecated are endpoints, configmaps, endpointsleases"
            " and configmapsleases.",
            field="leaderElection.resourceLock",
        ),
        Flag(
            "leader-elect-resource-name",
            STRING,
            "The name of the lease.",
            field="leaderElection.resourceName",
        ),
        Flag(
            "leader-elect-resource-namespace",
            STRING,
            "The namespace of the lease.",
            field="leaderElection.resourceNamespace",
        ),
        Flag(
            "leader-elect-retry-period",
            DURATION,
            "How long to wait between two attempts to take or renew the lease.",
            field="leaderElection.retryPeriod",
        ),
    ),
    "Feature gate": (
        Flag(
            "emulated-version",
            STRINGS,
            "The version of Kubernetes whose behavior to show, such as kube=1.36. berth decides as"
            f" {' or '.join(version.text for version in VERSIONS.values())}, and as"
            f" {CURRENT.text} if nothing is said.",
        ),
        Flag(
            "feature-gates",
            GATES,
            "Feature gates, such as Name=true or kube:Name=false. May be repeated.",
        ),
        Flag(
            "min-compatibility-version",
            STRINGS,
            "The lowest version of the other components of the control plane, such as kube=1.35."
            " Defaults of feature gates may depend on it.",
        ),
    ),
    "Metrics": (
        Flag(
            "allow-metric-labels",
            PAIRS,
            "The values that a label of a metric keeps, such as metric,label=value1,value2. Others"
            " become `unexpected`. May be repeated.",
        ),
        Flag(
            "allow-metric-labels-manifest",
            FILE,
            "A YAML file with the same: a mapping from metric,label to value1,value2.",
        ),
        Flag("disabled-metrics", STRINGS, "The names of metrics that are not to be served."),
        Flag(
            "show-hidden-metrics-for-version",
            STRING,
            "Also serve the metrics that were hidden in this version; only the one"
            " before the version to decide as is possible.",
            idle="no family is hidden",
        ),
    ),
    "Logs": (
        Flag(
            "log-flush-frequency",
            DURATION,
            "How often to flush the log.",
            idle=_UNBUFFERED,
            value=Duration(5),
        ),
        Flag(
            "log-json-info-buffer-size",
            QUANTITY,
            "How much of the log to keep in memory, in the format json.",
            idle=_UNBUFFERED,
        ),
        Flag(
            "log-json-split-stream",
            BOOL,
            "In the format json, write errors to standard error and other lines to standard output."
            " Needs the feature gate LoggingAlphaOptions.",
        ),
        Flag(
            "log-text-info-buffer-size",
            QUANTITY,
            "How much of the log to keep in memory, in the format text.",
            idle=_UNBUFFERED,
        ),
        Flag(
            "log-text-split-stream",
            BOOL,
            "The same as --log-json-split-stream for the format text.",
        ),
        Flag(
            "logging-format",
            STRING,
            "The format of the log: text or json.",
            value=LoggingOptions().format,
        ),
        Flag(
            "v",
            LEVEL,
            "How much to log: from 0 on starts, leadership and failures, from 2 on every attempt,"
            " and from 4 on the story of every pod.",
        ),
        Flag(
            "vmodule",
            VMODULE,
            "Verbosity for the files whose names match a pattern; only in the format text.",
        ),
    ),
    "Global": (
        Flag(
            "version",
            VERSION,
            "Print the versions of Kubernetes and berth, and exit; with --version=raw, in detail.",
        ),
    ),
    # kube-scheduler lacks these.
    "Berth": (
        Flag(
            "berth-liveness-stall",
            DURATION,
            "/livez fails once the event loop has stood still for this long.",
            value=Duration(Options().liveness_stall),
        ),
        Flag(
            "berth-recorder-bytes",
            INT,
            "How many bytes to keep of the latest attempts, for `berth why`; 0 keeps none.",
            value=Options().recorder_bytes,
        ),
        Flag(
            "berth-recorder-file",
            STRING,
            "The file to write all attempts to, for `berth why --file`; empty writes none.",
        ),
        Flag(
            "berth-recorder-file-bytes",
            INT,
            "How many bytes that file and its three predecessors take; the oldest goes first.",
            value=Options().recorder_file_bytes,
        ),
        Flag(
            "berth-plugin-failures",
            INT,
            "Failures in a row after which a plugin of a package is switched off; 0 never does it.",
            value=Options().plugin_failures,
        ),
        Flag(
            "berth-plugin-call",
            DURATION,
            "The longest time of a plugin's call; a longer one counts as a failure.",
            value=Duration(Options().plugin_call),
        ),
        Flag(
            "berth-plugin-attempt",
            DURATION,
            "The longest time of all calls of a plugin in one attempt.",
            value=Duration(Options().plugin_attempt),
        ),
        Flag(
            "berth-plugin-interrupt",
            DURATION,
            "A plugin's call is interrupted after this time, where Python can.",
            value=Duration(Options().plugin_interrupt),
        ),
    ),
}
FLAGS = {flag.name: flag for group in GROUPS.values() for flag in group}


class Flags:
    """The flags of one command line. `occurrences` has the values of each flag in their order, by
    name; a flag may be left out.
    """

    def __init__(self, occurrences: Mapping[str, Sequence[Any]]) -> None:
        self._values = {
            name: _combined_value(FLAGS[name], vs) for name, vs in occurrences.items() if vs
        }

    def __getitem__(self, name: str) -> Any:
        """Returns the value on the command line, or the default."""
        return self._values[name] if name in self._values else FLAGS[name].default

    def is_set(self, name: str) -> bool:
        return name in self._values

    def texts(self) -> dict[str, str]:
        """Returns the values of all flags by name, as Go prints them."""
        values = {name: FLAGS[name].kind.show(self[name]) for name in FLAGS}
        return dict(sorted({**values, "help": "false"}.items()))


def _combined_value(flag: Flag, values: Sequence[Any]) -> Any:
    """Returns the value of a flag with these occurrences: all of them for a list, otherwise the
    last.
    """
    if not flag.kind.several:
        return values[-1]
    if isinstance(flag.default, Mapping):
        return {name: value for pairs in values for name, value in pairs.items()}
    return tuple(item for items in values for item in items)
