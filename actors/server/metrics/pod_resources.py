"""/metrics/resources: the requests and limits of each pod, as kube-scheduler gives them.

The pods are those that the scheduler's informer holds: all that have not finished. The text of tens
of thousands of pods is made in parts, so that the caller can let other work run between two parts.
Mirrors kube-scheduler's metrics/resources.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from ...scheduling.kube.core import FINISHED, Pod, PodSpec
from ...scheduling.kube.requests import Amounts, exact_limits, exact_requests
from .exposition import escaped, go_float, heading, together

LIMIT, REQUEST = "kube_pod_resource_limit", "kube_pod_resource_request"
PART = 250  # pods
UNITS = {"cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}
UNITS_BY_PREFIX = {"hugepages-": "bytes", "attachable-volumes-": "integer"}
HELP = (
    "workloads on the cluster, broken down by pod. This shows the resource usage the scheduler and"
    " kubelet expect per pod for resources along with the unit for the resource if any."
)


class _Kind:
    """A family: requests or limits. The values of a spec are computed once for all its pods."""

    def __init__(self, name: str, text: str, read: Callable[[PodSpec], Amounts]) -> None:
        self.heading = heading(name, f"[STABLE] {text} {HELP}", "gauge")
        self.name = name
        self._read = read
        self._ends: dict[tuple[object, ...], list[str]] = {}

    def lines(self, pod: Pod) -> str:
        spec, metadata = pod.spec, pod.metadata
        ends = self._ends_of_lines(spec)
        if not ends or (spec.node_name and pod.status.phase in FINISHED):
            return ""
        start = (
            f'{self.name}{{namespace="{escaped(metadata.namespace)}"'
            f',node="{escaped(spec.node_name)}",pod="{escaped(metadata.name)}"'
        )
        return "".join([start + end for end in ends])

    def _ends_of_lines(self, spec: PodSpec) -> list[str]:
        """Returns the parts of a spec's lines that its pods share, which follow the name of the
        pod. The identities in the key hold, as its objects live as long as this reading.
        """
        parts = (spec.containers, spec.init_containers, spec.overhead, spec.resources)
        key = (*map(id, parts), spec.priority, spec.scheduler_name)
        ends = self._ends.get(key)
        if ends is None:
            priority = "" if spec.priority is None else spec.priority
            scheduler = escaped(spec.scheduler_name)
            ends = self._ends[key] = [
                f',priority="{priority}",resource="{escaped(resource)}",scheduler="{scheduler}"'
                f',unit="{unit_of(resource)}"}} {go_float(nanos / 10**9)}\n'
                for resource, nanos in sorted(self._read(spec).items())
                if nanos
            ]
        return ends


def unit_of(resource: str) -> str:
    """Returns the unit; "" for a resource without one, as extended resources are."""
    return UNITS.get(resource) or next(
        (unit for prefix, unit in UNITS_BY_PREFIX.items() if resource.startswith(prefix)), ""
    )


class PodResources:
    """The page of the pods' requests and limits. `pods` returns a copy of the informer's pods. The
    `disabled` families are left out.
    """

    def __init__(self, pods: Callable[[], Sequence[Pod]], disabled: Collection[str] = ()) -> None:
        self._pods = pods
        self._disabled = disabled

    async def text(self) -> bytes:
        return await together(self.parts())

    def parts(self) -> Iterator[bytes]:
        """Yields the text of the page. Some parts are empty, so that none takes long."""
        pods = self._pods()
        for kind in (
            _Kind(LIMIT, "Resources limit for", exact_limits),
            _Kind(REQUEST, "Resources requested by", exact_requests),
        ):
            if kind.name in self._disabled:
                continue
            head = kind.heading
            for start in range(0, len(pods), PART):
                lines = "".join(map(kind.lines, pods[start : start + PART]))
                if lines:
                    lines, head = head + lines, ""
                yield lines.encode()
