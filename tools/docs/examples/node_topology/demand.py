"""What the containers of a pod request, in the order in which the kubelet admits them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from berth.plugin import PodInfo

from .topologies import Amounts, amount

QOS_RESOURCES = ("cpu", "memory")


class ContainerDemand(msgspec.Struct, frozen=True):
    """`passes`: an init container, whose resources are free again when it ends. `kind` is the word
    for such a container.
    """

    requests: Amounts
    kind: str = ""
    passes: bool = False


class PodDemand(msgspec.Struct, frozen=True):
    """`is_guaranteed` says that the pod has CPUs and memory of its own."""

    containers: tuple[ContainerDemand, ...]
    whole: Amounts
    is_guaranteed: bool
    has_devices: bool

    @property
    def needs_no_numa_node(self) -> bool:
        """True for pods of BestEffort without devices: the kubelet aligns nothing for them."""
        return not self.has_devices and not any(self.whole.get(of) for of in QOS_RESOURCES)


def demand_of(info: PodInfo) -> PodDemand:
    spec = info.pod.spec
    containers = (*spec.init_containers, *spec.containers)
    demands = []
    for number, each in enumerate(containers):
        is_init = number < len(spec.init_containers)
        stays = each.restart_policy == "Always" or not is_init
        kind = "" if not is_init else "sidecar " if stays else "init "
        requests = {name: amount(name, text) for name, text in each.resources.requests.items()}
        demands.append(ContainerDemand(requests, kind, not stays))
    return PodDemand(
        tuple(demands),
        {name: of for name, of in info.requests.items() if of > 0},
        all(_has_its_own(each.resources.requests, each.resources.limits) for each in containers),
        any(not is_native(name) for demand in demands for name in demand.requests),
    )


def is_native(resource: str) -> bool:
    """True for resources that Kubernetes knows, false for those of device plugins."""
    return "/" not in resource or "kubernetes.io/" in resource


def _has_its_own(requests: Mapping[str, object], limits: Mapping[str, object]) -> bool:
    """True if a container makes its pod one of the class Guaranteed. Requests that are missing are
    those of the limits.
    """
    return all(
        limits.get(name) is not None
        and amount(name, str(limits[name])) == amount(name, str(requests.get(name, limits[name])))
        for name in QOS_RESOURCES
    )
