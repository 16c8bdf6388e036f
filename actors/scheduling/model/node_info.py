"""NodeInfo: one node with the pods that run on it, or are assumed to, and their sums.

The cache owns it, and nothing else changes it except a what-if question, which undoes its changes.
Invariant: every sum equals a recount of `pods`. Mirrors the framework's NodeInfo. A NodeInfo
without a node object is a ghost: its node is gone, or was not seen yet, but pods still name it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ..kube.core import Node
from ..kube.quantity import milli_value, value
from .pod_info import PodInfo
from .pod_template import HostPort, Values

# (protocol, port) -> ip -> the number of host ports of the node's pods that claim it
UsedPorts = dict[tuple[str, int], dict[str, int]]
MAX_CHANGES = 64
NO_LABELS: Mapping[str, str] = MappingProxyType({})


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
        "_allocatable",
        "_name",
        "_node",
        "_nonzero_cpu",
        "_nonzero_memory",
        "_pods",
        "_ports",
        "_requested",
        "changes",
        "freed_ports",
        "generation",
    )

    def __init__(self, name: str) -> None:
        self._name = name
        self._node: Node | None = None
        self.generation = 0
        self._pods: dict[str, PodInfo] = {}
        self._allocatable: dict[str, int] = {}
        self._requested: dict[str, int] = {}
        self._nonzero_cpu = 0
        self._nonzero_memory = 0
        self._ports: UsedPorts = {}
        self.freed_ports: set[HostPort] = set()
        self.changes: list[tuple[PodInfo, int]] | None = []

    # -------------------------------------------------------------------------------------- reading
    # Plugins are lent a NodeInfo, so no attribute can be set and no mapping written to.

    @property
    def name(self) -> str:
        return self._name

    @property
    def node(self) -> Node | None:
        return self._node

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels; none for a ghost."""
        return NO_LABELS if self._node is None else self._node.metadata.labels

    @property
    def pods(self) -> Mapping[str, PodInfo]:
        """The pods by key."""
        return MappingProxyType(self._pods)

    @property
    def allocatable(self) -> Mapping[str, int]:
        return MappingProxyType(self._allocatable)

    @property
    def requested(self) -> Mapping[str, int]:
        """The sums of the pods' requests; 0 for a resource that no pod requests any more. It has no
        other resources.
        """
        return MappingProxyType(self._requested)

    @property
    def nonzero_cpu(self) -> int:
        return self._nonzero_cpu

    @property
    def nonzero_memory(self) -> int:
        return self._nonzero_memory

    @property
    def ports(self) -> Mapping[tuple[str, int], Mapping[str, int]]:
        return MappingProxyType(
            {number: MappingProxyType(by_ip) for number, by_ip in self._ports.items()}
        )

    def sums(self) -> tuple[Mapping[str, int], int, int, int]:
        """Returns the requests (read-only), the number of pods, and their non-zero cpu and
        memory.
        """
        return self._requested, len(self._pods), self._nonzero_cpu, self._nonzero_memory

    def claims(self, port: HostPort) -> int:
        """Returns how many of the pods' host ports are this one."""
        return self._ports.get((port.protocol, port.port), {}).get(port.ip, 0)

    # -------------------------------------------------------------------------------------- writing

    def set_node(self, node: Node) -> None:
        self._node = node
        self._allocatable = {
            name: milli_value(quantity) if name == "cpu" else value(quantity)
            for name, quantity in node.status.allocatable.items()
        }

    def forget_node(self) -> None:
        """Drops the node object; the NodeInfo becomes a ghost, with the pods that still name it."""
        self._node = None
        self._allocatable = {}

    def add_pod(self, info: PodInfo) -> None:
        """Adds a pod to the sums. It must not be on this node yet."""
        assert info.key not in self._pods, info.key
        self.suppose(info, info.template.values, 1)
        self._log(info, 1)

    def remove_pod(self, key: str) -> PodInfo:
        """Subtracts the pod with this key from the sums, and returns it. Raises KeyError."""
        info = self._pods[key]
        self.suppose(info, info.template.values, -1)
        self._log(info, -1)
        return info

    def suppose(self, info: PodInfo, values: Values, sign: int) -> None:
        """Adds (1) or removes (-1) a pod for a what-if question, and counts only these of its
        values.
        """
        if sign > 0:
            self._pods[info.key] = info
        else:
            del self._pods[info.key]
        requested = self._requested
        for name, amount in values.requests.items():
            requested[name] = requested.get(name, 0) + sign * amount
        cpu, memory = info.template.nonzero
        self._nonzero_cpu += sign * cpu
        self._nonzero_memory += sign * memory
        ports = self._ports
        for port in values.ports:
            number = (port.protocol, port.port)
            by_ip = ports.get(number)
            if by_ip is None:
                by_ip = ports[number] = {}
            claims = by_ip.get(port.ip, 0) + sign
            if claims:
                by_ip[port.ip] = claims
            else:
                del by_ip[port.ip]
                if not by_ip:
                    del ports[number]

    def replace_pod(self, info: PodInfo) -> bool:
        """Replaces the pod that has the same key, if no sum changes; returns False otherwise."""
        if not info.counts_like(self._pods[info.key]):
            return False
        self._pods[info.key] = info
        return True

    def reorder(self, keys: Iterable[str]) -> None:
        """Puts the pods into the order of their keys."""
        self._pods = {key: self._pods[key] for key in keys}

    def take_changes(self) -> list[tuple[PodInfo, int]] | None:
        """Returns the pods added (+1) and removed (-1) since the last call.

        Returns None if there were too many to keep.
        """
        changes, self.changes = self.changes, []
        return changes

    def _log(self, info: PodInfo, sign: int) -> None:
        changes = self.changes
        if changes is not None:
            if sign < 0 and self._remove_logged(changes, info.key):
                return
            changes.append((info, sign))
            if len(changes) > MAX_CHANGES + 2 * len(self._pods):
                # No snapshot is taken (for a ghost, or without the lease). A recount will be
                # cheaper, and this bounds the memory.
                self.changes = None

    @staticmethod
    def _remove_logged(changes: list[tuple[PodInfo, int]], key: str) -> bool:
        """Removes the entry of a pod that was added since the last snapshot, which need not know
        of it; it may be large. Returns False if there is none.
        """
        for position in range(len(changes) - 1, -1, -1):
            info, sign = changes[position]
            if info.key == key:
                if sign > 0:
                    del changes[position]
                return sign > 0
        return False

    def validate(self) -> None:
        """Raises AssertionError if a sum differs from a recount of the pods."""
        fresh = NodeInfo(self.name)
        for info in self.pods.values():
            fresh.add_pod(info)
        mine, theirs = +Counter(self._requested), +Counter(fresh._requested)
        assert mine == theirs, (self.name, theirs, mine)
        assert (fresh.nonzero_cpu, fresh.nonzero_memory) == (
            self.nonzero_cpu,
            self.nonzero_memory,
        ), self.name
        assert fresh.ports == self.ports, (self.name, fresh.ports, self.ports)
