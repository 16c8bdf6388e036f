"""Pods of one template share their equal parts, and keep their values."""

from __future__ import annotations

import msgspec

from berth.actors.client.sharing import Sharing
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.actors.scheduling.model.interner import MAX_VALUES
from tests.kit import structs


def pod(number: int, node: str = "", image: str = "i") -> Pod:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "t"}
    return structs.pod(
        f"p{number}",
        node=node,
        namespace="default",
        labels={"app": "a"},
        annotations={"n": str(number)},
        containers=[{"name": "c", "image": image}],
        status={"conditions": [ready]},
    )


def copy_of(original: Pod) -> Pod:
    return msgspec.json.decode(msgspec.json.encode(original), type=Pod)


def labels_of(pod: Pod) -> object:
    """Returns the labels themselves: a reader gets a view of them."""
    return msgspec.structs.asdict(pod.metadata)["labels"]


def test_equal_parts_are_kept_once_for_all_nodes() -> None:
    sharing = Sharing()
    first, second, third = (
        sharing.shared(copy_of(each))
        for each in (pod(1, "n1"), pod(2, "n2"), pod(3, "n1", image="other"))
    )
    assert (first, second, third) == (pod(1, "n1"), pod(2, "n2"), pod(3, "n1", image="other"))
    assert first.spec.containers is second.spec.containers
    assert labels_of(first) is labels_of(second) is labels_of(third)
    assert first.status.conditions[0].type is second.status.conditions[0].type
    assert sharing.shared(copy_of(pod(4, "n1"))).spec is first.spec


def test_the_number_of_remembered_parts_is_bounded() -> None:
    sharing = Sharing()
    first = sharing.shared(pod(0, image="0"))
    for number in range(1, MAX_VALUES + 1):
        sharing.shared(pod(number, image=str(number)))
    again = sharing.shared(copy_of(pod(0, image="0")))
    assert again.spec == first.spec
    assert again.spec is not first.spec


def test_objects_other_than_pods_are_not_shared() -> None:
    node = Node(metadata=ObjectMeta(name="n"))
    assert Sharing().shared(node) is node
