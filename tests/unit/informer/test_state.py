"""What a list changes, told object by object."""

from __future__ import annotations

import msgspec

from actors.informer.state import Change, InformerState
from actors.kube.core import Pod


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
