"""What a list changes, told object by object."""

from __future__ import annotations

import msgspec
from berth.actors.informer.stand_ins import node_without_new_pods, pod_with_its_room
from berth.actors.informer.state import Change, InformerState
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.model.unsure_node import UnsureNode


def made(name: str, version: str = "1", uid: str = "") -> Pod:
    metadata = {"namespace": "ns", "name": name, "uid": uid or name, "resourceVersion": version}
    return msgspec.convert({"metadata": metadata}, Pod)


def test_a_list_tells_what_is_new_changed_replaced_and_gone() -> None:
    state: InformerState[Pod] = InformerState()
    first = (made("same"), made("changed"), made("replaced"), made("gone"))
    assert list(state.listed(first)) == [[Change(None, item)] for item in first]
    _, changed, replaced, gone = first
    second = (made("new"), made("replaced", uid="other"), made("changed", "2"), made("same"))
    assert list(state.listed(second)) == [
        [Change(None, second[0])],
        [Change(replaced, None), Change(None, second[1])],
        [Change(changed, second[2])],
        [],
        [Change(gone, None)],
    ]
    assert state.objects() == {f"ns/{item.metadata.name}": item for item in second}


def test_an_object_of_a_list_is_there_once_it_is_told_and_not_before() -> None:
    state: InformerState[Pod] = InformerState()
    telling = state.listed((made("a"), made("b")))
    assert next(telling) == [Change(None, made("a"))]
    assert list(state.objects()) == ["ns/a"]
    assert len(list(telling)) == 1
    assert list(state.objects()) == ["ns/a", "ns/b"]


def named(state: InformerState[Pod]) -> list[tuple[str, bool]]:
    return [(found.uid, begins) for found, begins in state.take_news()]


def on(item: Pod, node: str, version: str = "") -> Pod:
    metadata = msgspec.structs.replace(item.metadata, resource_version=version)
    spec = msgspec.structs.replace(item.spec, node_name=node)
    return msgspec.structs.replace(item, metadata=metadata, spec=spec)


def test_an_unreadable_pod_is_there_with_its_node_or_not_at_all() -> None:
    state = InformerState(pod_with_its_room)
    assigned, pending = on(made("assigned"), "n", "1"), made("pending")
    list(state.listed((assigned, pending)))
    assert state.unread(made("assigned", "2"), "why") == []
    assert state.unread(made("pending", "2"), "why") == [Change(pending, None)]
    assert state.unread(made("never", "2"), "why") == []
    there = on(made("there", "2"), "n", "2")
    assert state.unread(there, "why") == [Change(None, on(there, "n"))]
    assert named(state) == [("assigned", True), ("pending", True), ("never", True), ("there", True)]
    bound = on(pending, "m")
    assert state.unread(on(made("pending", "3"), "m", "3"), "why") == [Change(None, bound)]
    assert named(state) == []
    assert state.objects() == {
        "ns/assigned": assigned,
        "ns/there": on(there, "n"),
        "ns/pending": bound,
    }
    assert state.unreadable()["ns/assigned"].problem == "why"

    again = on(made("pending"), "m", "4")
    assert state.changed(again) == [Change(bound, again)]
    assert state.deleted(made("never")) == []
    assert state.deleted(there) == [Change(on(there, "n"), None)]
    assert named(state) == [("pending", False), ("never", False), ("there", False)]


def test_a_list_keeps_what_is_in_it_though_it_cannot_be_read() -> None:
    state = InformerState(pod_with_its_room)
    first = on(made("first"), "n", "1")
    list(state.listed((first, made("other"))))
    told = list(state.listed((), [(made("first", "2"), "why"), (made("new", "2"), "why")]))
    assert [change for changes in told for change in changes] == [Change(made("other"), None)]
    assert state.unreadable().keys() == {"ns/first", "ns/new"}
    assert list(state.listed((first,))) == [
        [Change(first, first)]
    ]  # it is the same, and sure again
    assert not state.unreadable()
    assert len(named(state)) == 4


def test_one_of_the_same_name_and_another_uid_is_another_object() -> None:
    state = InformerState(pod_with_its_room)
    first = on(made("p"), "n", "1")
    state.changed(first)
    assert state.unread(made("p", "2", uid="other"), "why") == [Change(first, None)]
    assert state.unread(made("p", "3", uid="third"), "why") == []
    assert named(state) == [("other", True), ("third", True)]
    fourth = made("p", "4", uid="fourth")
    assert state.changed(fourth) == [Change(None, fourth)]


def test_what_is_gone_is_found_by_its_uid_where_its_name_cannot_be_read() -> None:
    state: InformerState[Pod] = InformerState()
    item = made("p")
    state.changed(item)
    assert state.deleted(made("", uid="p")) == [Change(item, None)]
    assert state.deleted(made("", uid="p")) == []
    state.unread(made("q"), "why")
    state.deleted(made("", uid="q"))
    assert not state.unreadable()


def test_an_object_without_a_name_is_named_and_stands_for_nothing() -> None:
    state: InformerState[Pod] = InformerState()
    assert list(state.listed((made("p"),), [(made("", uid="u"), "why")])) == [
        [Change(None, made("p"))],
        [],
    ]
    assert [found.uid for found in state.unreadable().values()] == ["u"]
    list(state.listed((made("p"),)))
    assert not state.unreadable()


def test_an_unsure_node_is_as_it_was_read_last() -> None:
    def node(version: str, *, unschedulable: bool = False) -> Node:
        metadata = {"name": "n", "uid": "u", "resourceVersion": version}
        return msgspec.convert(
            {"metadata": metadata, "spec": {"unschedulable": unschedulable}}, Node
        )

    state = InformerState(node_without_new_pods)
    assert state.unread(node("1"), "why") == []
    state.changed(node("2", unschedulable=True))
    ((change,),) = (state.unread(node("3"), "why"),)
    assert isinstance(change.new, UnsureNode)
    assert (change.new.spec.unschedulable, change.new.metadata.resource_version) == (True, "")
    assert state.unread(node("4"), "why") == []
    assert state.changed(node("2", unschedulable=True)) == [
        Change(change.new, node("2", unschedulable=True))
    ]


def test_a_state_without_a_namespace_is_told_by_its_uid() -> None:
    def nameless(uid: str) -> Pod:
        return msgspec.convert(
            {"metadata": {"name": "p", "uid": uid}, "spec": {"nodeName": "n"}}, Pod
        )

    state = InformerState(pod_with_its_room)
    assert state.unread(nameless("p"), "why") == []  # nobody knows whose room that is
    there = on(made("p"), "n", "2")
    assert state.unread(there, "why") == [Change(None, on(there, "n"))]
    assert state.unreadable().keys() == {"ns/p"}
    assert state.unread(nameless("p"), "why") == []
    assert list(state.listed((), [(nameless("p"), "why")])) == [[]]
    assert state.unreadable().keys() == {"ns/p"}
    assert state.deleted(nameless("p")) == [Change(on(there, "n"), None)]
    assert not state.unreadable()
    state.unread(nameless("q"), "why")
    assert state.changed(made("other", uid="q")) == [Change(None, made("other", uid="q"))]
    assert not state.unreadable()
