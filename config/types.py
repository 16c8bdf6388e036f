"""KubeSchedulerConfiguration v1 (kubescheduler.config.k8s.io/v1) after defaulting.

Durations are text in the file ("15s", "1m30s") and seconds here. Fields have Kubernetes' names and
defaults.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
EXTENSION_POINTS = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
)

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")


class Duration(float):
    """Seconds; in the file, durations are written as in Go."""

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Raises ValueError for text that is not a duration."""
        sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
        if rest == "0":
            return cls(0)
        parts = _PART.findall(rest)
        if not parts or "".join(number + unit for number, unit in parts) != rest:
            raise ValueError(f"expected a duration such as 15s, 1m30s or 500ms, got {text!r}")
        return cls(sign * sum(float(number) * _UNITS[unit] for number, unit in parts))

    def __str__(self) -> str:
        hours, rest = divmod(abs(float(self)), 3600)
        minutes, seconds = divmod(rest, 60)
        parts = [
            f"{amount:.9g}{unit}"
            for amount, unit in ((hours, "h"), (minutes, "m"), (seconds, "s"))
            if amount
        ]
        return ("-" if self < 0 else "") + ("".join(parts) or "0s")

    def in_go(self) -> str:
        """The duration as Go prints it, such as 500ms, or 15m0s with the zero seconds."""
        hours, rest = divmod(abs(float(self)), 3600)
        minutes, seconds = divmod(rest, 60)
        text = f"{seconds * 1000:.9g}ms" if 0 < abs(self) < 1 else f"{seconds:.9g}s"
        if hours or minutes:
            text = f"{minutes:.0f}m{text}"
        return ("-" if self < 0 else "") + (f"{hours:.0f}h{text}" if hours else text)


class PluginRef(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """A plugin by name; a weight of None means the plugin's default, 1."""

    name: str
    weight: int | None = None


class PluginSet(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()


class Plugins(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """The plugins of each extension point; multiPoint applies to every point that a plugin
    implements.
    """

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()

    def at(self, point: str) -> PluginSet:
        """The set of an extension point, by its name in the file."""
        found: PluginSet = getattr(
            self, re.sub(r"[A-Z]", lambda match: "_" + match[0].lower(), point)
        )
        return found


class PluginConfig(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A plugin's arguments as written in the file; the plugin itself reads and validates them."""

    name: str
    args: dict[str, Any] = {}


class KubeSchedulerProfile(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    scheduler_name: str = "default-scheduler"
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class LeaderElectionConfiguration(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    leader_elect: bool = True
    lease_duration: Duration = Duration(15)
    renew_deadline: Duration = Duration(10)
    retry_period: Duration = Duration(2)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnectionConfiguration(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50
    burst: int = 100


class ExtenderManagedResource(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    """A resource that an extender manages; NodeResourcesFit does not count it if
    `ignored_by_scheduler`.
    """

    name: str
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """PEM in files, or as data (base64 in the file), which takes precedence."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class Extender(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """A process that is called over HTTP; an empty verb is never called."""

    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = Duration(5)
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class KubeSchedulerConfiguration(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    api_version: str = API_VERSION
    kind: str = KIND
    parallelism: int = 16
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: int = 0
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    delay_cache_until_active: bool = False
    profiles: tuple[KubeSchedulerProfile, ...] = (KubeSchedulerProfile(),)
    extenders: tuple[Extender, ...] = ()
