"""A row of the table of controllers: its items, what it watches, and how it decides.

Mirrors the builder of controller-runtime with its For, Owns and Watches, and its predicates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from berth.actors.scheduling.kube.meta import HasMetadata

from ...kubernetes.object_index import ObjectIndex
from ...kubernetes.objects.properties import controller_of
from ...kubernetes.objects.structs import Workload
from ...kubernetes.objects.writes import Write
from ...kubernetes.work_items import Item
from ...kubernetes.workloads.adoption import selector_of

T = TypeVar("T", bound=HasMetadata)
Affected = HasMetadata | tuple[str, str]  # an object, or the namespace and name of one
Find = Callable[[ObjectIndex, Any], Iterable[Affected]]
# The arguments after the index are an object before and after its change, None if there was none.
Watch = Callable[[ObjectIndex, Any, Any], Iterable[Affected]]
Watches = Mapping[type[HasMetadata], Watch]
NO_WATCHES: Watches = {}
Predicate = Callable[[Any, Any], bool]
Reconcile = Callable[[ObjectIndex, Item, datetime], list[Write]]


class Controller(msgspec.Struct, frozen=True):
    """A controller whose items are objects of a kind.

    `watches` says, for each kind of a changed object, which items the change may affect; an item
    may occur twice.
    """

    name: str
    kind: type[HasMetadata]
    watches: Watches
    reconcile: Reconcile


def controller(
    name: str,
    kind: type[T],
    watches: Watches,
    decide: Callable[[ObjectIndex, T, datetime], list[Write]],
    forget: Callable[[Item], None] = lambda _item: None,
) -> Controller:
    """Returns a controller that decides on objects that exist, and on each if it changes itself,
    unless `watches` says when.

    `forget` is called for an item without an object.
    """

    def reconcile(cluster: ObjectIndex, item: Item, now: datetime) -> list[Write]:
        obj = cluster.find(kind, item.namespace, item.name)
        if obj is None:
            forget(item)
            return []
        return decide(cluster, obj, now)

    return Controller(name, kind, {kind: objects_before_and_after(itself), **watches}, reconcile)


def itself(_cluster: ObjectIndex, obj: HasMetadata) -> Iterable[Affected]:
    return (obj,)


def objects_before_and_after(find: Find) -> Watch:
    """Returns a watch that maps an object, as it is before a change and after it, to items."""

    def watch(cluster: ObjectIndex, before: Any, after: Any) -> Iterable[Affected]:
        if before is None or after is None:
            return find(cluster, after or before)
        return (*find(cluster, before), *find(cluster, after))

    return watch


def if_changed(predicate: Predicate, find: Find) -> Watch:
    """Returns a watch that is restricted to the changes for which the predicate is true."""
    return lambda cluster, before, after: (
        find(cluster, after or before) if predicate(before, after) else ()
    )


def state_changes(state: Callable[[Any], object]) -> Predicate:
    """True if the object exists and its state has changed. `state` also takes None."""
    return lambda before, after: after is not None and state(before) != state(after)


def condition_begins(condition: Callable[[Any], bool]) -> Predicate:
    """True if the object meets the condition and did not before."""
    return lambda before, after: bool(
        after and condition(after) and not (before and condition(before))
    )


def comes_or_goes(before: object, after: object) -> bool:
    return before is None or after is None


def owned_by(kind: type[HasMetadata]) -> Watch:
    """Returns a watch that maps an object to the owners that control it or, if they select, could
    adopt it.
    """

    def owners(cluster: ObjectIndex, obj: HasMetadata) -> Iterator[Affected]:
        namespace, owner = obj.metadata.namespace, controller_of(obj)
        if owner is not None and owner.kind == kind.__name__:
            yield namespace, owner.name
        elif owner is None and issubclass(kind, Workload):
            for candidate in cluster.within(kind, namespace):
                if selector_of(candidate).matches(obj.metadata.labels):
                    yield candidate

    return objects_before_and_after(owners)


def all_of(kind: type[HasMetadata]) -> Find:
    return lambda cluster, _obj: cluster.all(kind)


def by_way_of(objects: Callable[[ObjectIndex, Any], Iterable[Any]], find: Find) -> Watch:
    """Returns a watch that maps a changed object to further objects, and these to items."""
    return objects_before_and_after(
        lambda cluster, obj: (
            place for other in objects(cluster, obj) for place in find(cluster, other)
        )
    )
