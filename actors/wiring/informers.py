"""The informers of a process, one for each kind that its profiles need.

Once a kind is followed, it is followed to the end, also if the profiles that needed it are gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Set
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from ..client.access import Access, Source
from ..client.polling import Poller
from ..client.rights import Right
from ..informer.actor import InformerActor
from ..informer.listers import Listers
from ..informer.routing import Routed, route_node, route_object, route_pod
from ..informer.stand_ins import node_without_new_pods, pod_with_its_room
from ..informer.state import Change
from ..mailboxes import Mailboxes
from ..messages.cache import KindListed
from ..runtime.backoff import Rng
from ..runtime.clock import Clock
from ..runtime.supervisor import Child, OnCrash
from ..scheduling.decision.profile import Profile
from ..scheduling.framework.events import KINDS, Resource
from ..scheduling.kube.gated_fields import GatedFields
from ..scheduling.kube.kinds import (
    BY_KIND,
    LOOKED_UP,
    NODES,
    PODS,
    WatchedKind,
    type_of,
)
from ..scheduling.kube.meta import HasMetadata
from ..scheduling.kube.reading import UnreadableObject
from .late_children import LateChildren


class _Copy(dict[str, HasMetadata]):
    """The objects of a kind at a version of its informer."""

    __slots__ = ("__weakref__", "version")

    version: int


class Informers:
    """The informers of nodes, of pods, and of the kinds that plugins look up or wait for."""

    def __init__(
        self,
        access: Access,
        profiles: Mapping[str, Profile],
        mailboxes: Mailboxes,
        listers: Listers,
        feature_gates: Mapping[str, bool],
        clock: Clock,
        rng: Rng,
    ) -> None:
        self._access = access
        self._clock = clock
        self._mailboxes = mailboxes
        self._listers = listers
        self._by_kind: dict[WatchedKind, InformerActor[Any]] = {}
        self._kinds_of_events: set[str] = set()
        self._copies: WeakValueDictionary[WatchedKind, _Copy] = WeakValueDictionary()
        self._later = LateChildren(clock, rng)
        self._add(profiles.values())
        types = {kind.type for kind in self._by_kind}
        for kind in LOOKED_UP:
            if kind.type not in types:
                problem = f"no enabled plugin names {kind.kind} in its lookups"
                mailboxes.cache.tell(KindListed(kind.type, problem))
        self.nodes = InformerActor(
            access.follow(NODES.path, NODES.type),
            route_node,
            mailboxes,
            node_without_new_pods,
            changed=partial(listers.changed, NODES.type),
        )
        self.pods = InformerActor(
            access.follow(PODS.path, PODS.type, PODS.selector),
            lambda change: route_pod(change, profiles.keys()),
            mailboxes,
            pod_with_its_room,
            changed=partial(listers.changed, PODS.type),
            read=GatedFields(feature_gates).drop,
        )
        listers.follow(NODES.type, self.nodes)
        listers.follow(PODS.type, self.pods)
        self._by_kind |= {NODES: self.nodes, PODS: self.pods}

    async def follow(self, profiles: Collection[Profile]) -> None:
        """Adds the informers for the kinds that these profiles need. Returns once they have
        started.
        """
        await self._later.start(self._children(self._add(profiles)))

    def _add(self, profiles: Collection[Profile]) -> list[WatchedKind]:
        """Makes the informers for new kinds that these profiles need, and returns these kinds. The
        informers deliver nothing before they run.
        """
        self._kinds_of_events |= _kinds_of_events(profiles)
        new = [kind for kind in looked_up(profiles) if kind not in self._by_kind]
        for kind in new:
            self._by_kind[kind] = InformerActor(
                self._source(kind),
                partial(self._route, kind),
                self._mailboxes,
                looked_up=kind.type,
                changed=partial(self._listers.changed, kind.type),
            )
            self._listers.follow(kind.type, self._by_kind[kind])
        return new

    def _source(self, kind: WatchedKind) -> Source[Any]:
        if kind.every > 0:
            return Poller(self._access.calls, kind, self._clock)
        return self._access.follow(kind.path, kind.type)

    def _route(self, kind: WatchedKind, change: Change[HasMetadata]) -> Routed:
        return route_object(change, _resource_of(kind, self._kinds_of_events))

    def children(self) -> tuple[Child, ...]:
        """Returns the informers of the first profiles, and the child that runs later ones. All may
        start side by side.
        """
        later = Child("informers of later profiles", self._later.run)
        return (later, *self._children(self._by_kind))

    def _children(self, kinds: Iterable[WatchedKind]) -> tuple[Child, ...]:
        return tuple(
            Child(f"informer of {kind.kind}", self._by_kind[kind].run, OnCrash.RETRY)
            for kind in kinds
        )

    def objects(
        self, kinds: Collection[WatchedKind]
    ) -> dict[WatchedKind, Mapping[str, HasMetadata]]:
        """Returns the present objects of these kinds, by kind and key; of all kinds if none is
        named.

        If no object of a kind has changed since the last call, its mapping is the same object, as
        long as somebody keeps it.
        """
        return {kind: self._copy_of(kind) for kind in self._by_kind if not kinds or kind in kinds}

    def _copy_of(self, kind: WatchedKind) -> Mapping[str, HasMetadata]:
        informer = self._by_kind[kind]
        copy = self._copies.get(kind)
        if copy is None or copy.version != informer.version():
            copy = self._copies[kind] = _Copy(informer.objects())
            copy.version = informer.version()
        return copy

    def problems(self) -> list[str]:
        """Returns the API server's reason for each kind that it does not list."""
        return [informer.problem() for informer in self._by_kind.values() if informer.problem()]

    def paths(self) -> list[str]:
        """Returns the paths of the kinds that are followed."""
        return [kind.path for kind in self._by_kind]

    def refused(self) -> list[Right]:
        """Returns the rights that the API server refuses to informers."""
        return [
            Right.of("GET", kind.path)
            for kind, informer in self._by_kind.items()
            if informer.problem()
        ]

    def unreadable(self) -> list[UnreadableObject]:
        """Returns the objects that cannot be read."""
        return [item for informer in self._by_kind.values() for item in informer.unreadable()]

    def resource_versions(self) -> dict[WatchedKind, str]:
        """Returns the resource version of the latest change of each kind, "" if there was none."""
        return {kind: informer.resource_version() for kind, informer in self._by_kind.items()}

    def count_unreadable(self) -> dict[str, int]:
        """Returns the numbers of objects that cannot be read, by kind."""
        numbers: Counter[str] = Counter()
        for kind, informer in self._by_kind.items():
            numbers[kind.kind] += len(informer.unreadable())
        return dict(numbers)


def looked_up(profiles: Collection[Profile]) -> dict[WatchedKind, None]:
    """Returns the kinds that plugins look up, or whose events they wait for. Of a kind that berth
    knows, one version is followed: the one that a plugin names, if it does.
    """
    lookups = [kind for p in profiles for plugin in p.plugins for kind in plugin.lookups]
    types = {type_of(kind) for kind in lookups}
    waited_for = _kinds_of_events(profiles)
    named = {kind: None for kind in lookups if isinstance(kind, WatchedKind)}
    versions = {kind.type for kind in named if _is_known(kind)}
    built_in = [
        kind
        for kind in LOOKED_UP
        if kind.type not in versions and (kind.type in types or kind.kind in waited_for)
    ]
    return dict.fromkeys(built_in) | named


def _kinds_of_events(profiles: Collection[Profile]) -> set[str]:
    """Returns the names of the kinds whose events plugins wait for."""
    registered = (
        each for profile in profiles for events in profile.hints().values() for each in events
    )
    return {registration.event.resource.rpartition("/")[2] for registration in registered}


def _resource_of(kind: WatchedKind, waited_for: Set[str]) -> Resource | str | None:
    """Returns the resource of the events of a kind; None if nothing can wait for them."""
    resource = KINDS.get(kind.kind)
    if _is_known(kind):
        return resource or (kind.kind if kind.kind in waited_for else None)
    # Another kind with the name of one of Kubernetes' needs its version and group.
    return kind.kind if resource is None else kind.full_name


def _is_known(kind: WatchedKind) -> bool:
    """True if berth itself can read the kind."""
    return BY_KIND.get((kind.api_version, kind.kind)) == kind
