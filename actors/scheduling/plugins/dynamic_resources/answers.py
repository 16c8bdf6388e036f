"""What each node offers to pods that ask for the same devices, kept while it does not change.

A search for devices is the costly part of a decision. Its outcome depends on the node, the pools
that serve it and what claims hold of them; a node where none of this changed since the last pod
that asked for the same is not searched again.
"""

from __future__ import annotations

import enum
from functools import cached_property

import msgspec
import numpy as np

from berth.plugin import Ints, NodeView, Pod, Snapshot

from ...kube.core import Node
from ...kube.devices import MOST_SUB_REQUESTS, ResourceClaim
from ...kube.quantity import value
from ...model.columns import NodeColumns
from ...model.vectors import grown
from .extended import ClassesByResource, RequestMapping, requests_for, with_requests
from .inventory import Inventory
from .pools import NodePools
from .search import Found, Outcome, Picked, search
from .stale_rows import StaleRows
from .steps import Steps, TimedOutError
from .wanted import AllocationError, ClassByName, Wanted, wanted_by

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


class Verdict(enum.IntEnum):
    """What a node offers. FAILED is not kept."""

    PASSES = 0
    NOT_ALLOCATED = 1
    INVALID_POOLS = 2
    NO_RESOURCE = 3
    FAILED = 4


class Offer(msgspec.Struct, frozen=True):
    """What a node gives to the claims that are not allocated yet, in order: the devices. If devices
    must provide extended resources, those for their claim come last, and `missing` names them.
    """

    found: Found = ()
    missing: frozenset[str] = frozenset()

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
    order, and at last for the claim for extended resources: those that are `missing`, and what each
    container gets of them.
    """

    claims: tuple[Wanted, ...]
    missing: frozenset[str] = frozenset()
    mappings: tuple[RequestMapping, ...] = ()


class Given(msgspec.Struct, frozen=True):
    """The claims of a pod that get devices, the one for extended resources last, the devices of
    each, and what each container gets for its extended resources.
    """

    claims: tuple[ResourceClaim, ...]
    found: Found
    mappings: tuple[RequestMapping, ...] = ()


class Asked(msgspec.Struct, frozen=True, dict=True):
    """What one pod asks for: its claims that are not allocated, and the extended resources that a
    device class provides, with the claim for them.
    """

    pod: Pod
    claims: tuple[ResourceClaim, ...]
    resources: dict[str, int]
    extended: ResourceClaim | None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The extended resources in an order that is the same for all pods of a shape."""
        containers = (*self.pod.spec.init_containers, *self.pod.spec.containers)
        walked = (name for c in containers for name in sorted(c.resources.requests))
        rest = sorted(self.resources)
        return tuple(dict.fromkeys(name for name in (*walked, *rest) if name in self.resources))

    def shape(self, columns: NodeColumns, by_resource: ClassesByResource) -> bytes:
        """Equal for pods that ask for the same devices.

        The name of a resource does not count if only devices provide it: then the selectors of its
        class stand for it.
        """
        specs = [claim.spec.devices for claim in self.claims]
        if self.extended is None:
            return _ENCODER.encode(specs)
        stands_for: dict[str, object] = {name: name for name in self.resources}
        for name in self.resources:
            device_class = by_resource.get(name)
            if device_class is not None and name not in columns.allocatable:
                stands_for[name] = device_class.spec.selectors
        containers = []
        for container in (*self.pod.spec.init_containers, *self.pod.spec.containers):
            requests = container.resources.requests
            asked = [
                (place, stands_for[name], requests[name])
                for place, name in enumerate(sorted(requests))
                if name in stands_for
            ]
            containers.append((asked, container.restart_policy))
        resources = [(stands_for[name], amount) for name, amount in sorted(self.resources.items())]
        numbers = (len(self.pod.spec.init_containers), resources)
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
        if missing:
            first = dict(zip(asked.names, self._asked.names, strict=True))
            missing = frozenset(first[name] for name in missing)
        need = self._needs.get(missing)
        if need is None:
            assert self._asked.extended is not None
            requests, mappings = requests_for(self._asked.pod, missing, self._by_resource)
            claim = with_requests(self._asked.extended, requests)
            claims = (*self._claims, self._wanted(claim))
            need = self._needs[missing] = Need(claims, missing, tuple(mappings))
        return need

    def given(self, node: str, asked: Asked) -> Given | None:
        """What a node gives to the claims of a pod; None if it gives no device."""
        offer = self.offer(node)
        if offer is None:
            return None
        if not offer.missing or asked.extended is None:
            return Given(asked.claims, offer.found)
        # The offer may have been made to a pod that asks for the same under other names.
        own = dict(zip(self._asked.names, asked.names, strict=True))
        missing = frozenset(own[name] for name in offer.missing)
        requests, mappings = requests_for(asked.pod, missing, self._by_resource)
        claim = with_requests(asked.extended, requests)
        found = (*offer.found[:-1], _renamed(offer.found[-1], self._wanted(claim)))
        return Given((*asked.claims, claim), found, tuple(mappings))

    # ----------------------------------------------------------------------------------- keeping up

    def settle(self, nodes: NodeView, asked: Asked, steps: Steps) -> None:
        """Brings the answers for the nodes of a view up to date. It stops at a node that FAILED,
        also because no steps are left.
        """
        self._stale.follow()
        if self._stale.size > len(self.verdicts):
            self.verdicts = grown(self.verdicts, self._stale.size)
            self.scores = grown(self.scores, self._stale.size)
        for position in self._stale.positions(nodes):
            node, row = nodes.node(position), nodes.row(position)
            if node is None:
                continue
            verdict = self._search(node, row, asked, steps)
            self.verdicts[row] = verdict
            if verdict is Verdict.FAILED:
                return
            self._stale.renewed(row)

    def _search(self, node: Node, row: int, asked: Asked, steps: Steps) -> Verdict:
        self._offers.pop(row, None)
        self.scores[row] = 0
        need = self.need(node, asked)
        if need is None:
            return Verdict.NO_RESOURCE
        if not need.claims:
            return Verdict.PASSES
        try:
            outcome = self._outcome(node, need, asked, steps)
        except TimedOutError:
            self.failure = f"node {node.metadata.name}: timed out trying to allocate devices"
            return Verdict.FAILED
        except AllocationError as problem:
            self.failure = str(problem)
            return Verdict.FAILED
        if outcome.found is None:
            return Verdict.INVALID_POOLS if outcome.invalid_pools else Verdict.NOT_ALLOCATED
        offer = Offer(outcome.found, need.missing)
        self._offers[row] = offer
        self.scores[row] = offer.score
        return Verdict.PASSES

    def _outcome(self, node: Node, need: Need, asked: Asked, steps: Steps) -> Outcome:
        """The outcome of the search, or that of a node that sees the same pools, if it was searched
        since the last change.
        """
        version = self.inventory.changed.version
        if version != self._outcomes_version:
            self._outcomes.clear()
            self._outcomes_version = version
        pools = self.inventory.pools(node)
        known = self._outcomes.get((pools, id(need)))
        if known is not None:
            return known
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
        return outcome

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


def _renamed(found: tuple[Picked, ...], wanted: Wanted) -> tuple[Picked, ...]:
    """The same devices, for requests that have other classes."""
    requests = {request.name: request.alternatives[0] for request in wanted.requests}
    return tuple([Picked(one.device, requests[one.alternative.name], one.shares) for one in found])
