"""What the informer's store does with lists, changes, and objects that cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from berth.actors.informer.stand_ins import last_or_part, node_without_new_pods, pod_with_its_room
from berth.actors.informer.state import BecameUnreadable, Change, Effect, InformerState, StandIn
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.model.stale_node import StaleNode
from berth.plugin import Node, Pod
from tests.kit import structs

T = TypeVar("T", bound=HasMetadata)


class Store(Generic[T]):
    """A store whose effects are split: the changes are returned, and `named` are the uids of the
    objects that became unreadable (True), or no longer are (False).
    """

    def __init__(self, stand_in: StandIn[T] = last_or_part) -> None:
        self.state = InformerState(stand_in)
        self.objects = self.state.objects()
        self.unreadable = self.state.unreadable()
        self._named: list[tuple[str, bool]] = []

    def _changes(self, effects: list[Effect[T]]) -> list[Change[T]]:
        changes = []
        for effect in effects:
            if isinstance(effect, Change):
                changes.append(effect)
            else:
                self._named.append((effect.item.uid, isinstance(effect, BecameUnreadable)))
        return changes

    def listed(
        self, items: Iterable[T], unread: Iterable[tuple[T, str]] = ()
    ) -> Iterator[list[Change[T]]]:
        return map(self._changes, self.state.listed(items, unread))

    def changed(self, item: T) -> list[Change[T]]:
        return self._changes(self.state.changed(item))

    def unread(self, rest: T) -> list[Change[T]]:
        return self._changes(self.state.unread(rest, "why"))

    def deleted(self, item: T) -> list[Change[T]]:
        return self._changes(self.state.deleted(item))

    def named(self) -> list[tuple[str, bool]]:
        """Returns the names since the last call."""
        named, self._named = self._named, []
        return named


def pod(name: str, version: str = "1", uid: str = "") -> Pod:
    return structs.pod(name, uid=uid or name, resourceVersion=version)


def test_a_list_shows_what_is_new_changed_replaced_and_gone() -> None:
    store: Store[Pod] = Store()
    first = (pod("same"), pod("changed"), pod("replaced"), pod("gone"))
    assert list(store.listed(first)) == [[Change(None, item)] for item in first]
    _, changed, replaced, gone = first
    second = (pod("new"), pod("replaced", uid="other"), pod("changed", "2"), pod("same"))
    assert list(store.listed(second)) == [
        [Change(None, second[0])],
        [Change(replaced, None), Change(None, second[1])],
        [Change(changed, second[2])],
        [],
        [Change(gone, None)],
    ]
    assert store.objects == {f"ns/{item.metadata.name}": item for item in second}


def test_an_object_of_a_list_is_in_the_store_once_its_effects_are_there() -> None:
    store: Store[Pod] = Store()
    effects = store.listed((pod("a"), pod("b")))
    assert next(effects) == [Change(None, pod("a"))]
    assert list(store.objects) == ["ns/a"]
    assert len(list(effects)) == 1
    assert list(store.objects) == ["ns/a", "ns/b"]


def on(item: Pod, node: str, version: str = "") -> Pod:
    metadata = msgspec.structs.replace(item.metadata, resource_version=version)
    spec = msgspec.structs.replace(item.spec, node_name=node)
    return msgspec.structs.replace(item, metadata=metadata, spec=spec)


def test_a_pod_that_cannot_be_read_is_in_the_store_if_it_has_a_node() -> None:
    store = Store(pod_with_its_room)
    assigned, pending = on(pod("assigned"), "n", "1"), pod("pending")
    list(store.listed((assigned, pending)))
    assert store.unread(pod("assigned", "2")) == []
    assert store.unread(pod("pending", "2")) == [Change(pending, None)]
    assert store.unread(pod("never", "2")) == []
    there = on(pod("there", "2"), "n", "2")
    assert store.unread(there) == [Change(None, on(there, "n"))]
    expected = [("assigned", True), ("pending", True), ("never", True), ("there", True)]
    assert store.named() == expected
    bound = on(pending, "m")
    assert store.unread(on(pod("pending", "3"), "m", "3")) == [Change(None, bound)]
    assert store.named() == []
    assert store.objects == {
        "ns/assigned": assigned,
        "ns/there": on(there, "n"),
        "ns/pending": bound,
    }
    assert store.unreadable["ns/assigned"].problem == "why"

    again = on(pod("pending"), "m", "4")
    assert store.changed(again) == [Change(bound, again)]
    assert store.deleted(pod("never")) == []
    assert store.deleted(there) == [Change(on(there, "n"), None)]
    assert store.named() == [("pending", False), ("never", False), ("there", False)]


def test_a_list_keeps_the_objects_in_it_that_cannot_be_read() -> None:
    store = Store(pod_with_its_room)
    first = on(pod("first"), "n", "1")
    list(store.listed((first, pod("other"))))
    news = list(store.listed((), [(pod("first", "2"), "why"), (pod("new", "2"), "why")]))
    assert [change for changes in news for change in changes] == [Change(pod("other"), None)]
    assert store.unreadable.keys() == {"ns/first", "ns/new"}
    readable_again, missing = store.listed((first,))
    assert (readable_again, missing) == ([Change(first, first)], [])
    assert not store.unreadable
    assert len(store.named()) == 4


def test_an_object_of_the_same_name_and_another_uid_is_another_object() -> None:
    store = Store(pod_with_its_room)
    first = on(pod("p"), "n", "1")
    store.changed(first)
    assert store.unread(pod("p", "2", uid="other")) == [Change(first, None)]
    assert store.unread(pod("p", "3", uid="third")) == []
    assert store.named() == [("other", True), ("third", True)]
    fourth = pod("p", "4", uid="fourth")
    assert store.changed(fourth) == [Change(None, fourth)]


def test_a_deleted_object_without_a_readable_name_is_found_by_its_uid() -> None:
    store: Store[Pod] = Store()
    item = pod("p")
    store.changed(item)
    assert store.deleted(pod("", uid="p")) == [Change(item, None)]
    assert store.deleted(pod("", uid="p")) == []
    store.unread(pod("q"))
    store.deleted(pod("", uid="q"))
    assert not store.unreadable


def test_an_object_without_a_readable_name_is_reported_and_has_no_stand_in() -> None:
    store: Store[Pod] = Store()
    assert list(store.listed((pod("p"),), [(pod("", uid="u"), "why")])) == [
        [Change(None, pod("p"))],
        [],
    ]
    assert [unread.uid for unread in store.unreadable.values()] == ["u"]
    list(store.listed((pod("p"),)))
    assert not store.unreadable


def test_a_node_that_cannot_be_read_is_as_it_was_last_read() -> None:
    def node(version: str, *, unschedulable: bool = False) -> Node:
        metadata = {"name": "n", "uid": "u", "resourceVersion": version}
        return msgspec.convert(
            {"metadata": metadata, "spec": {"unschedulable": unschedulable}}, Node
        )

    store = Store(node_without_new_pods)
    assert store.unread(node("1")) == []
    store.changed(node("2", unschedulable=True))
    ((change,),) = (store.unread(node("3")),)
    assert isinstance(change.new, StaleNode)
    assert (change.new.spec.unschedulable, change.new.metadata.resource_version) == (True, "")
    assert store.unread(node("4")) == []
    assert store.changed(node("2", unschedulable=True)) == [
        Change(change.new, node("2", unschedulable=True))
    ]


def test_a_state_without_a_namespace_is_recognised_by_its_uid() -> None:
    def nameless(uid: str) -> Pod:
        return msgspec.convert(
            {"metadata": {"name": "p", "uid": uid}, "spec": {"nodeName": "n"}}, Pod
        )

    store = Store(pod_with_its_room)
    assert store.unread(nameless("p")) == []  # it is not known which pod takes this room
    there = on(pod("p"), "n", "2")
    assert store.unread(there) == [Change(None, on(there, "n"))]
    assert store.unreadable.keys() == {"ns/p"}
    assert store.unread(nameless("p")) == []
    assert list(store.listed((), [(nameless("p"), "why")])) == [[]]
    assert store.unreadable.keys() == {"ns/p"}
    assert store.deleted(nameless("p")) == [Change(on(there, "n"), None)]
    assert not store.unreadable
    store.unread(nameless("q"))
    assert store.changed(pod("other", uid="q")) == [Change(None, pod("other", uid="q"))]
    assert not store.unreadable
