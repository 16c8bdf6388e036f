"""NodeInfo: one node with the pods that run on it, or are assumed to, and their sums.

The cache owns it, and nothing else changes it except a what-if question, which undoes its changes.
Invariant: every sum equals a recount of `pods`. Mirrors the framework's NodeInfo. A NodeInfo
without a node object is a ghost: its node is gone, or was not seen yet, but pods still name it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from ..kube.core import Node
from ..kube.quantity import milli_value, value
from .pod_info import PodInfo
from .pod_template import HostPort

# (protocol, port) -> ip -> the number of host ports of the node's pods that claim it
UsedPorts = dict[tuple[str, int], dict[str, int]]
MAX_CHANGES = 64
WILDCARD_IP = "0.0.0.0"  # noqa: S104 - a host port without hostIP, not a listening socket


class NodeInfo:
    """A node with sums as integers: cpu in thousandths of a core, all other resources in whole
    units.

    The sums are exact however large they are, because a capped sum could not be subtracted from;
    the columns cap them.

    `freed_ports` are the ports (ip, protocol, port) of pods that a what-if question removed. They
    count as free even if another pod holds them too, as in kube-scheduler's dry run, which keeps
    ports in a set.
    """

    __slots__ = (
        "allocatable",
        "changes",
        "claims",
        "freed_ports",
        "generation",
        "name",
        "node",
        "nonzero_cpu",
        "nonzero_memory",
        "pods",
        "ports",
        "requested",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self.generation = 0
        self.pods: dict[str, PodInfo] = {}
        self.allocatable: dict[str, int] = {}
        self.requested: Counter[str] = Counter()
        self.nonzero_cpu = 0
        self.nonzero_memory = 0
        self.ports: UsedPorts = {}
        self.freed_ports: set[HostPort] = set()
        # PersistentVolumeClaim (namespace/name) -> the number of volumes that name it
        self.claims: Counter[str] = Counter()
        self.changes: list[tuple[PodInfo, int]] | None = []

    def set_node(self, node: Node) -> None:
        self.node = node
        self.allocatable = {
            name: milli_value(quantity) if name == "cpu" else value(quantity)
            for name, quantity in node.status.allocatable.items()
        }

    def forget_node(self) -> None:
        """Drops the node object; the NodeInfo becomes a ghost, with the pods that still name it."""
        self.node = None
        self.allocatable = {}

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels; a ghost has none."""
        return {} if self.node is None else self.node.metadata.labels

    def add_pod(self, info: PodInfo) -> None:
        """Adds a pod to the sums. It must not be on this node yet."""
        assert info.key not in self.pods, info.key
        self.pods[info.key] = info
        self._account(info, 1)

    def remove_pod(self, key: str) -> PodInfo:
        """Subtracts the pod with this key from the sums, and returns it. Raises KeyError."""
        info = self.pods.pop(key)
        self._account(info, -1)
        return info

    def replace_pod(self, info: PodInfo) -> bool:
        """Replaces the pod that has the same key, if no sum changes; returns False otherwise."""
        if not info.counts_like(self.pods[info.key]):
            return False
        self.pods[info.key] = info
        return True

    def ports_in_use(self) -> Mapping[tuple[str, int], Collection[str]]:
        """Returns the ips on which ports are in use: (protocol, port) -> ips."""
        if not self.freed_ports:
            return self.ports
        in_use = {claim: set(by_ip) for claim, by_ip in self.ports.items()}
        for freed in self.freed_ports if in_use else ():
            ips = in_use.get((freed.protocol, freed.port))
            if ips is not None:
                ips.discard(freed.ip)
        return {claim: ips for claim, ips in in_use.items() if ips}

    def take_changes(self) -> list[tuple[PodInfo, int]] | None:
        """Returns the pods added (+1) and removed (-1) since the last call.

        Returns None if there were too many to keep.
        """
        changes, self.changes = self.changes, []
        return changes

    def _account(self, info: PodInfo, sign: int) -> None:
        if self.changes is not None:
            self.changes.append((info, sign))
            if len(self.changes) > MAX_CHANGES + 2 * len(self.pods):
                # No snapshot is taken (for a ghost, or without the lease). A recount will be
                # cheaper, and this bounds the memory.
                self.changes = None
        template, requested = info.template, self.requested
        for name, amount in template.requests.items():
            requested[name] += sign * amount
        cpu, memory = template.nonzero
        self.nonzero_cpu += sign * cpu
        self.nonzero_memory += sign * memory
        for claim in template.host_ports:
            port = (claim.protocol, claim.port)
            by_ip = self.ports.get(port)
            if by_ip is None:
                by_ip = self.ports[port] = {}
            number = by_ip.get(claim.ip, 0) + sign
            if number:
                by_ip[claim.ip] = number
            else:
                del by_ip[claim.ip]
                if not by_ip:
                    del self.ports[port]
        for name in info.claims:
            self.claims[name] += sign
            if not self.claims[name]:
                del self.claims[name]

    def validate(self) -> None:
        """Raises AssertionError if a sum differs from a recount of the pods."""
        fresh = NodeInfo(self.name)
        for info in self.pods.values():
            fresh.add_pod(info)
        assert +fresh.requested == +self.requested, (self.name, fresh.requested, self.requested)
        assert (fresh.nonzero_cpu, fresh.nonzero_memory) == (
            self.nonzero_cpu,
            self.nonzero_memory,
        ), self.name
        assert fresh.ports == self.ports, (self.name, fresh.ports, self.ports)
        assert fresh.claims == self.claims, (self.name, fresh.claims, self.claims)
