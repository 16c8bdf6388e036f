"""The informers of a process: which kinds are followed, for which profiles.

A kind that is followed once is followed to the end, also if the profiles that needed it are gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Set
from functools import partial
from typing import Any

from ..client.access import Access
from ..client.rights import Right
from ..informer.actor import InformerActor
from ..informer.listers import Listers
from ..informer.routing import Routed, route_node, route_object, route_pod
from ..informer.stand_ins import node_without_new_pods, pod_with_its_room
from ..informer.state import Change
from ..mailboxes import Mailboxes
from ..messages.cache import KindListed
from ..runtime.supervisor import Child, OnCrash
from ..scheduling.decision.profile import Profile
from ..scheduling.framework.events import KINDS, Resource
from ..scheduling.kube.gated_fields import GatedFields
from ..scheduling.kube.kinds import LOOKED_UP, NODES, PODS, WatchedKind, type_of
from ..scheduling.kube.meta import HasMetadata
from ..scheduling.kube.reading import UnreadableObject


class Informers:
    """The informers of nodes, of pods, and of the kinds that plugins look up or wait for."""

    def __init__(
        self,
        access: Access,
        profiles: Mapping[str, Profile],
        mailboxes: Mailboxes,
        listers: Listers,
        feature_gates: Mapping[str, bool],
    ) -> None:
        self._access = access
        self._mailboxes = mailboxes
        self._listers = listers
        self._by_kind: dict[WatchedKind, InformerActor[Any]] = {}
        self._waited_for: set[str] = set()
        self.follow_for(profiles.values())
        for kind in LOOKED_UP:
            if kind not in self._by_kind:
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

    def follow_for(self, profiles: Collection[Profile]) -> tuple[Child, ...]:
        """Have the kinds that these profiles need followed, besides those of others. Returns the
        informers that are new; they deliver nothing before they run.
        """
        self._waited_for |= _waited_for(profiles)
        new = [kind for kind in looked_up(profiles) if kind not in self._by_kind]
        for kind in new:
            self._by_kind[kind] = InformerActor(
                self._access.follow(kind.path, kind.type),
                partial(self._route, kind),
                self._mailboxes,
                looked_up=kind.type,
                changed=partial(self._listers.changed, kind.type),
            )
            self._listers.follow(kind.type, self._by_kind[kind])
        return self._children(new)

    def _route(self, kind: WatchedKind, change: Change[HasMetadata]) -> Routed:
        return route_object(change, _resource_of(kind, self._waited_for))

    def children(self) -> tuple[Child, ...]:
        return self._children(self._by_kind)

    def _children(self, kinds: Iterable[WatchedKind]) -> tuple[Child, ...]:
        return tuple(
            Child(f"informer of {kind.kind}", self._by_kind[kind].run, OnCrash.RETRY)
            for kind in kinds
        )

    def problems(self) -> list[str]:
        """Why the API server refuses to list a kind, for each such kind."""
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
        return [found for informer in self._by_kind.values() for found in informer.unreadable()]

    def count_unreadable(self) -> dict[str, int]:
        """The numbers of objects that cannot be read, by kind."""
        numbers: Counter[str] = Counter()
        for kind, informer in self._by_kind.items():
            numbers[kind.kind] += len(informer.unreadable())
        return dict(numbers)


def looked_up(profiles: Collection[Profile]) -> dict[WatchedKind, None]:
    """The kinds that plugins look up, or whose events they wait for."""
    lookups = [kind for p in profiles for plugin in p.plugins for kind in plugin.lookups]
    types = {type_of(kind) for kind in lookups}
    waited_for = _waited_for(profiles)
    known = [kind for kind in LOOKED_UP if kind.type in types or kind.kind in waited_for]
    others = [kind for kind in lookups if isinstance(kind, WatchedKind)]
    return dict.fromkeys([*known, *others])


def _waited_for(profiles: Collection[Profile]) -> set[str]:
    """The names of the kinds whose events plugins wait for."""
    registered = (
        each for profile in profiles for events in profile.hints().values() for each in events
    )
    return {registration.event.resource.rpartition("/")[2] for registration in registered}


def _resource_of(kind: WatchedKind, waited_for: Set[str]) -> Resource | str | None:
    """The resource of the events of a kind; None if nobody can wait for them."""
    known = KINDS.get(kind.kind)
    if kind in LOOKED_UP:
        return known or (kind.kind if kind.kind in waited_for else None)
    # Another kind with the name of one of Kubernetes' needs its version and group.
    return kind.kind if known is None else kind.full_name
