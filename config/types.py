"""KubeSchedulerConfiguration v1 (kubescheduler.config.k8s.io/v1) after defaulting.

Durations are text in the file ("15s", "1m30s") and seconds here. Fields have Kubernetes' names,
defaults and ranges; `fields` reads a document by these types, and `schema` describes them.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
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
# The points of pod groups: their sets are read, and may not enable a plugin.
GROUP_POINTS = ("placementGenerate", "placementScore")
# A point of pod groups at which DefaultPreemption may be enabled, and does nothing here.
POD_GROUP_POST_FILTER = "podGroupPostFilter"
# The changes that brought a point.
NEW_POINTS = {
    **dict.fromkeys(GROUP_POINTS, "PlacementPoints"),
    POD_GROUP_POST_FILTER: "PodGroupPostFilterPoint",
}
MAX_INT32 = (1 << 31) - 1
MAX_INT64 = (1 << 63) - 1
MAX_FLOAT32 = 3.4028234663852886e38

Int32 = Annotated[int, Meta(ge=-MAX_INT32 - 1, le=MAX_INT32)]
Int64 = Annotated[int, Meta(ge=-MAX_INT64 - 1, le=MAX_INT64)]
Percentage = Annotated[int, Meta(ge=0, le=100)]

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # the micro sign
    "μs": 1_000,  # the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(ns|us|µs|μs|ms|s|m|h)")
_SECOND = _UNITS["s"]


class Duration(float):
    """Seconds; in the file, durations are written as in Go."""

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Reads a duration as Go writes it. Raises ValueError for other text."""
        sign, unsigned = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
        if unsigned == "0":
            return cls(0)
        parts = list(_PART.finditer(unsigned))
        if not parts or "".join(part[0] for part in parts) != unsigned:
            raise ValueError(f"expected a duration such as 15s, 1m30s or 500ms, got {text!r}")
        total = 0
        for part in parts:
            whole, fraction, scale = part[1] or "0", part[2] or part[3] or "", _UNITS[part[4]]
            total += int(whole) * scale
            if fraction:
                total += int(fraction) * scale // 10 ** len(fraction)
        if total > MAX_INT64:
            raise ValueError(f"expected a duration of at most 292 years, got {text!r}")
        return cls(sign * total / _SECOND)

    def __str__(self) -> str:
        hours, remainder = divmod(abs(float(self)), 3600)
        minutes, seconds = divmod(remainder, 60)
        parts = [
            f"{amount:.9g}{unit}"
            for amount, unit in ((hours, "h"), (minutes, "m"), (seconds, "s"))
            if amount
        ]
        return ("-" if self < 0 else "") + ("".join(parts) or "0s")

    def in_go(self) -> str:
        """Returns the duration as Go prints it, such as 500ms, or 15m0s with the zero seconds."""
        nanoseconds = round(abs(float(self)) * _SECOND)
        if nanoseconds < _SECOND:
            unit = next((u for u in ("ms", "µs", "ns") if nanoseconds >= _UNITS[u]), "s")
            text = _decimal(nanoseconds, _UNITS[unit]) + unit
        else:
            minutes, remainder = divmod(nanoseconds, _UNITS["m"])
            hours, minutes = divmod(minutes, 60)
            text = _decimal(remainder, _SECOND) + "s"
            if hours or minutes:
                text = f"{minutes}m{text}"
            if hours:
                text = f"{hours}h{text}"
        return ("-" if self < 0 else "") + text


def _decimal(amount: int, unit: int) -> str:
    """Returns the amount in this unit, a power of ten, without zeros at the end."""
    whole, remainder = divmod(amount, unit)
    fraction = str(unit + remainder)[1:].rstrip("0")
    return f"{whole}.{fraction}" if fraction else str(whole)


def described(text: str) -> Meta:
    return Meta(description=text)


class PluginRef(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """A plugin by name; a weight of None or 0 means the plugin's default, 1."""

    name: Annotated[str, described("The plugin's name.")] = ""
    weight: Annotated[
        Int32 | None, described("The factor of its scores, at the points score and multiPoint.")
    ] = None


class PluginSet(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """The plugins that a profile enables and disables at an extension point."""

    enabled: Annotated[
        tuple[PluginRef, ...], described("Plugins to run, in addition to the default ones.")
    ] = ()
    disabled: Annotated[
        tuple[PluginRef, ...], described("Default plugins not to run; * means all of them.")
    ] = ()


class Plugins(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """The plugins of each extension point; multiPoint applies to every point that a plugin
    implements.
    """

    pre_enqueue: Annotated[PluginSet, described("Before a pod enters the active queue.")] = (
        PluginSet()
    )
    queue_sort: Annotated[
        PluginSet, described("The order of the queue; one plugin, the same for all profiles.")
    ] = PluginSet()
    pre_filter: Annotated[
        PluginSet, described("Before filtering: what the pod needs, and whether it can be met.")
    ] = PluginSet()
    filter: Annotated[PluginSet, described("Nodes that cannot run the pod.")] = PluginSet()
    post_filter: Annotated[
        PluginSet, described("After filtering, if no node is left, such as preemption.")
    ] = PluginSet()
    pre_score: Annotated[PluginSet, described("Before scoring.")] = PluginSet()
    score: Annotated[PluginSet, described("Scores for the nodes that are left.")] = PluginSet()
    reserve: Annotated[
        PluginSet, described("When a node is chosen: reserves what the pod gets there.")
    ] = PluginSet()
    permit: Annotated[
        PluginSet, described("Before binding: allows, rejects or delays the pod.")
    ] = PluginSet()
    pre_bind: Annotated[PluginSet, described("Work to do before the pod is bound.")] = PluginSet()
    bind: Annotated[
        PluginSet, described("Binds the pod; the first plugin that does not skip does it.")
    ] = PluginSet()
    post_bind: Annotated[PluginSet, described("After the pod is bound.")] = PluginSet()
    multi_point: Annotated[
        PluginSet, described("Every extension point that the plugin implements.")
    ] = PluginSet()
    pod_group_post_filter: Annotated[
        PluginSet,
        described("If a pod group fits nowhere; no effect. From Kubernetes 1.37 on."),
    ] = PluginSet()
    placement_generate: Annotated[
        PluginSet, described("Placements of pod groups; no plugin can be enabled here.")
    ] = PluginSet()
    placement_score: Annotated[
        PluginSet, described("Scores of placements of pod groups; no plugin can be enabled here.")
    ] = PluginSet()

    def at(self, point: str) -> PluginSet:
        """Returns the set of an extension point, by its name in the file."""
        plugin_set: PluginSet = getattr(self, _field_of(point))
        return plugin_set


@cache
def _field_of(point: str) -> str:
    return re.sub(r"[A-Z]", lambda match: "_" + match[0].lower(), point)


class PluginConfig(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A plugin's arguments as written in the file; the plugin itself reads and validates them."""

    name: Annotated[str, described("The plugin's name.")] = ""
    args: Annotated[dict[str, Any], described("The plugin's arguments.")] = {}


class KubeSchedulerProfile(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """A set of plugins with a scheduler name, by which pods choose it."""

    scheduler_name: Annotated[
        str, described("The profile of the pods with this spec.schedulerName.")
    ] = "default-scheduler"
    percentage_of_nodes_to_score: Annotated[
        Percentage | None, described("Takes precedence over the field of all profiles.")
    ] = None
    plugins: Annotated[
        Plugins, described("The plugins that this profile enables and disables.")
    ] = Plugins()
    plugin_config: Annotated[tuple[PluginConfig, ...], described("The arguments of plugins.")] = ()


_LEASES, _ENDPOINTS, _CONFIG_MAPS = (
    ("coordination.k8s.io", "leases"),
    ("", "endpoints"),
    ("", "configmaps"),
)
# The kinds of locks, each with the groups and resources that it writes. The last four, which
# kube-scheduler had until 1.26, are for clusters that migrate to leases.
RESOURCE_LOCKS = {
    "leases": (_LEASES,),
    "endpoints": (_ENDPOINTS,),
    "configmaps": (_CONFIG_MAPS,),
    "endpointsleases": (_ENDPOINTS, _LEASES),
    "configmapsleases": (_CONFIG_MAPS, _LEASES),
}


class LeaderElectionConfiguration(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    """Which of several schedulers decides: the one that holds the lease."""

    leader_elect: Annotated[bool, described("Schedule only while holding the lease.")] = True
    lease_duration: Annotated[
        Duration, described("How long others wait before they take a lease that is not renewed.")
    ] = Duration(15)
    renew_deadline: Annotated[
        Duration, described("How long the leader tries to renew the lease before it stops.")
    ] = Duration(10)
    retry_period: Annotated[Duration, described("The time between attempts.")] = Duration(2)
    resource_lock: Annotated[
        str, described("The kind of the lock: leases, or an older one, which is deprecated.")
    ] = "leases"
    resource_name: Annotated[str, described("The name of the Lease.")] = "kube-scheduler"
    resource_namespace: Annotated[str, described("The namespace of the Lease.")] = "kube-system"


class ClientConnectionConfiguration(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    """How to reach the API server."""

    kubeconfig: Annotated[str, described("A kubeconfig file; as --kubeconfig.")] = ""
    accept_content_types: Annotated[str, described("No effect: berth uses JSON.")] = ""
    content_type: Annotated[str, described("No effect: berth uses JSON.")] = (
        "application/vnd.kubernetes.protobuf"
    )
    qps: Annotated[
        float,
        Meta(ge=-MAX_FLOAT32, le=MAX_FLOAT32),
        described("Requests a second, on average; less than 0 means no limit."),
    ] = 50
    burst: Annotated[int, Meta(ge=0, le=MAX_INT32), described("Requests at once.")] = 100


class ExtenderManagedResource(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    """A resource that an extender manages; NodeResourcesFit does not count it if
    `ignored_by_scheduler`.
    """

    name: Annotated[str, described("An extended resource, such as example.com/gpu.")] = ""
    ignored_by_scheduler: Annotated[bool, described("The extender alone counts the resource.")] = (
        False
    )


class ExtenderTLSConfig(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """PEM in files, or as data (base64 in the file), which takes precedence."""

    insecure: Annotated[bool, described("Do not verify the certificate.")] = False
    server_name: Annotated[str, described("The name that the certificate must have.")] = ""
    cert_file: Annotated[str, described("A client certificate.")] = ""
    key_file: Annotated[str, described("The client certificate's key.")] = ""
    ca_file: Annotated[str, described("The certificate authorities.")] = ""
    cert_data: Annotated[bytes, described("The same as certFile, in base64.")] = b""
    key_data: Annotated[bytes, described("The same as keyFile, in base64.")] = b""
    ca_data: Annotated[bytes, described("The same as caFile, in base64.")] = b""


class Extender(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """A process that is called over HTTP; an empty verb is never called."""

    url_prefix: Annotated[str, described("Its address, such as http://host:8888/path.")] = ""
    filter_verb: Annotated[str, described("The path of the call that filters nodes.")] = ""
    preempt_verb: Annotated[
        str, described("The path of the call that changes the candidates for preemption.")
    ] = ""
    prioritize_verb: Annotated[str, described("The path of the call that scores nodes.")] = ""
    weight: Annotated[Int64, described("The factor of its scores.")] = 0
    bind_verb: Annotated[str, described("The path of the call that binds.")] = ""
    enable_https: Annotated[bool, described("Use HTTPS.")] = msgspec.field(
        default=False, name="enableHTTPS"
    )
    tls_config: Annotated[
        ExtenderTLSConfig | None, described("Certificates, and how to check them.")
    ] = None
    http_timeout: Annotated[Duration, described("The time for one call.")] = Duration(5)
    node_cache_capable: Annotated[bool, described("It knows the nodes: send only their names.")] = (
        False
    )
    managed_resources: Annotated[
        tuple[ExtenderManagedResource, ...],
        described("Call it only for pods that request one of these; if empty, for every pod."),
    ] = ()
    ignorable: Annotated[bool, described("If a call fails, go on without it.")] = False


class KubeSchedulerConfiguration(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    """The configuration file of kube-scheduler and of berth."""

    api_version: Annotated[
        Literal["kubescheduler.config.k8s.io/v1"], described("The version of this file's format.")
    ] = API_VERSION
    kind: Annotated[Literal["KubeSchedulerConfiguration"], described("The kind of this file.")] = (
        KIND
    )
    parallelism: Annotated[
        int,
        Meta(ge=1, le=MAX_INT32),
        described("How many victims of preemption are deleted at a time."),
    ] = 16
    leader_election: Annotated[
        LeaderElectionConfiguration, described("The lease of the scheduler that decides.")
    ] = LeaderElectionConfiguration()
    client_connection: Annotated[
        ClientConnectionConfiguration, described("The connection to the API server.")
    ] = ClientConnectionConfiguration()
    enable_profiling: Annotated[bool, described("No effect in berth.")] = True
    enable_contention_profiling: Annotated[bool, described("No effect in berth.")] = True
    percentage_of_nodes_to_score: Annotated[
        Percentage,
        described("How many feasible nodes are enough to score, in percent of all; 0: adaptive."),
    ] = 0
    pod_initial_backoff_seconds: Annotated[
        int,
        Meta(ge=1, le=MAX_INT64),
        described("How long a pod waits after its first failed attempt; doubled each time."),
    ] = 1
    pod_max_backoff_seconds: Annotated[
        Int64, described("The longest time that a pod waits after a failed attempt.")
    ] = 10
    delay_cache_until_active: Annotated[bool, described("No effect in berth.")] = False
    profiles: Annotated[
        tuple[KubeSchedulerProfile, ...], described("The profiles by scheduler name.")
    ] = (KubeSchedulerProfile(),)
    extenders: Annotated[
        tuple[Extender, ...], described("Processes that take part in decisions, in all profiles.")
    ] = ()
