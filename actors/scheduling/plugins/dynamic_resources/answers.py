"""What each node offers to pods that ask for the same devices, kept while it does not change.

A search for devices is the costly part of a decision. Its outcome depends on the node, the pools
that serve it and what claims hold of them; a node where none of this changed since the last pod
that asked for the same is not searched again.
"""

from __future__ import annotations

import enum

import msgspec
import numpy as np

from berth.actors.scheduling.kube.core import Node
from berth.actors.scheduling.kube.devices import MOST_SUB_REQUESTS, DeviceRequest, ResourceClaim
from berth.actors.scheduling.kube.quantity import value
from berth.actors.scheduling.model.vectors import grown
from berth.actors.scheduling.plugins.dynamic_resources.extended import (
    ClassesByResource,
    RequestMapping,
    requests_for,
    with_requests,
)
from berth.actors.scheduling.plugins.dynamic_resources.inventory import Inventory
from berth.actors.scheduling.plugins.dynamic_resources.pools import NodePools
from berth.actors.scheduling.plugins.dynamic_resources.search import (
    Found,
    Outcome,
    TimedOutError,
    search,
)
from berth.actors.scheduling.plugins.dynamic_resources.stale_rows import StaleRows
from berth.actors.scheduling.plugins.dynamic_resources.wanted import (
    AllocationError,
    ClassByName,
    Wanted,
    wanted_by,
)
from berth.plugin import Ints, NodeView, Pod, Snapshot

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


# How many searches of the longest kind one attempt may make at a time.
MOST_SEARCHES = 5


class Verdict(enum.IntEnum):
    """What a node offers. FAILED is not kept."""

    PASSES = 0
    NOT_ALLOCATED = 1
    INVALID_POOLS = 2
    NO_RESOURCE = 3
    FAILED = 4


class Offer(msgspec.Struct, frozen=True):
    """What a node gives to the claims that are not allocated yet, in order: the devices, and for
    extended resources, whose devices come last, the requests of their claim and what each container
    gets.
    """

    found: Found = ()
    requests: tuple[DeviceRequest, ...] | None = None
    mappings: tuple[RequestMapping, ...] = ()

    @property
    def score(self) -> int:
        """More for alternatives that stand first in their lists."""
        chosen = {
            (claim, one.alternative.parent, one.alternative.index)
            for claim, picked in enumerate(self.found)
            for one in picked
            if one.alternative.parent
        }
        return sum(MOST_SUB_REQUESTS - index for _, _, index in chosen)


class Need(msgspec.Struct, frozen=True):
    """What the devices of one node have to provide: for the claims that are not allocated yet, in
    order, and at last for the claim for extended resources. The rest is that claim's: its requests,
    None if the node needs no such claim, and what each container gets.
    """

    claims: tuple[Wanted, ...]
    requests: tuple[DeviceRequest, ...] | None = None
    mappings: tuple[RequestMapping, ...] = ()


class Asked(msgspec.Struct, frozen=True):
    """What one pod asks for: its claims that are not allocated, and the extended resources that a
    device class provides, with the claim for them.
    """

    pod: Pod
    claims: tuple[ResourceClaim, ...]
    resources: dict[str, int]
    extended: ResourceClaim | None

    @property
    def shape(self) -> bytes:
        """Equal for pods that ask for the same devices."""
        specs = [claim.spec.devices for claim in self.claims]
        if self.extended is None:
            return _ENCODER.encode(specs)
        containers = [
            (c.name, c.resources.requests, c.restart_policy)
            for c in (*self.pod.spec.init_containers, *self.pod.spec.containers)
        ]
        numbers = (len(self.pod.spec.init_containers), self.resources)
        return _ENCODER.encode((specs, containers, numbers))


class Answers:
    """The answers of all nodes for one shape, brought up to date for the nodes that are looked at.

    `verdicts` and `scores` are by row. `failure` is the problem of the last node that FAILED.
    `inventory` is up to date after PreFilter.
    """

    def __init__(
        self,
        asked: Asked,
        inventory: Inventory,
        classes: ClassByName,
        by_resource: ClassesByResource,
        snapshot: Snapshot,
    ) -> None:
        self.failure = ""
        self.inventory = inventory
        self._classes = classes
        self._by_resource = by_resource
        self._asked = asked
        self._claims = tuple(self._wanted(claim) for claim in asked.claims)
        self._needs: dict[frozenset[str], Need] = {frozenset(): Need(self._claims)}
        rows = snapshot.columns.size
        self.verdicts = np.zeros(rows, dtype=np.int8)
        self.scores: Ints = np.zeros(rows, dtype=np.int64)
        self._stale = StaleRows(inventory, snapshot.columns)
        self._offers: dict[int, Offer] = {}
        self._outcomes: dict[tuple[NodePools, int], Outcome] = {}
        self._outcomes_version = -1
        self._columns = snapshot.columns

    # ------------------------------------------------------------------------------------- reading

    def is_of(self, snapshot: Snapshot) -> bool:
        return self._columns is snapshot.columns

    def offer(self, node: str) -> Offer | None:
        """What a node gives; None if it passes without giving a device, or does not pass."""
        row = self._columns.row_of.get(node)
        return None if row is None else self._offers.get(row)

    def need(self, node: Node, asked: Asked) -> Need | None:
        """What a node has to provide; None if it has an extended resource neither way."""
        missing = frozenset[str]() if asked.extended is None else self._missing(node, asked)
        if missing is None:
            return None
        need = self._needs.get(missing)
        if need is None:
            assert self._asked.extended is not None
            requests, mappings = requests_for(self._asked.pod, missing, self._by_resource)
            claim = with_requests(self._asked.extended, requests)
            claims = (*self._claims, self._wanted(claim))
            need = self._needs[missing] = Need(claims, tuple(requests), tuple(mappings))
        return need

    def mappings(self, node: str) -> tuple[RequestMapping, ...]:
        """What each container gets of the claim for extended resources on a node."""
        offer = self.offer(node)
        return () if offer is None else offer.mappings

    # ----------------------------------------------------------------------------------- keeping up

    def settle(self, nodes: NodeView, asked: Asked, steps: int) -> None:
        """Brings the answers for the nodes of a view up to date. It stops at a node that FAILED."""
        self._stale.follow()
        if self._stale.size > len(self.verdicts):
            self.verdicts = grown(self.verdicts, self._stale.size)
            self.scores = grown(self.scores, self._stale.size)
        most = MOST_SEARCHES * steps
        for position in self._stale.positions(nodes):
            node, row = nodes.node(position), nodes.row(position)
            if node is None:
                continue
            verdict, taken = self._search(node, row, asked, min(steps, most))
            most -= taken
            self.verdicts[row] = verdict
            if verdict is Verdict.FAILED:
                return
            self._stale.renewed(row)

    def _search(self, node: Node, row: int, asked: Asked, steps: int) -> tuple[Verdict, int]:
        """The verdict on a node, and the steps that it took."""
        self._offers.pop(row, None)
        self.scores[row] = 0
        need = self.need(node, asked)
        if need is None:
            return Verdict.NO_RESOURCE, 0
        if not need.claims:
            return Verdict.PASSES, 0
        try:
            outcome, taken = self._outcome(node, need, asked, steps)
        except TimedOutError:
            self.failure = f"node {node.metadata.name}: timed out trying to allocate devices"
            return Verdict.FAILED, steps
        except AllocationError as problem:
            self.failure = str(problem)
            return Verdict.FAILED, 0
        if outcome.found is None:
            return (
                Verdict.INVALID_POOLS if outcome.invalid_pools else Verdict.NOT_ALLOCATED
            ), taken
        offer = Offer(outcome.found, need.requests, need.mappings)
        self._offers[row] = offer
        self.scores[row] = offer.score
        return Verdict.PASSES, taken

    def _outcome(self, node: Node, need: Need, asked: Asked, steps: int) -> tuple[Outcome, int]:
        """The outcome of the search, and the steps that it took: none if a node that sees the same
        pools was searched since the last change.
        """
        version = self.inventory.changed.version
        if version != self._outcomes_version:
            self._outcomes.clear()
            self._outcomes_version = version
        pools = self.inventory.pools(node)
        known = self._outcomes.get((pools, id(need)))
        if known is not None:
            return known, 0
        try:
            outcome = search(need.claims, pools, self.inventory, steps)
        except AllocationError:
            if asked is self._asked:
                raise
            # The message must name the claims of this pod.
            own = [self._wanted(claim) for claim in asked.claims]
            wanted = [*own, *need.claims[len(own) :]]
            outcome = search(wanted, pools, self.inventory, steps)
        self._outcomes[pools, id(need)] = outcome
        return outcome, outcome.steps

    def _missing(self, node: Node, asked: Asked) -> frozenset[str] | None:
        """The extended resources that devices must provide on this node; None if the node has one
        of them neither way.
        """
        missing = set()
        for resource in asked.resources:
            amount = node.status.allocatable.get(resource)
            if self._by_resource.get(resource) is not None and not (amount and value(amount)):
                missing.add(resource)
            elif amount is None:
                return None
        return frozenset(missing)

    def _wanted(self, claim: ResourceClaim) -> Wanted:
        return wanted_by(claim, self._classes, self.inventory.features)
