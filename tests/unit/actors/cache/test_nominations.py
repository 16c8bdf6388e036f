"""How long the cache counts a pending pod on the node that it is nominated to."""

from __future__ import annotations

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import (
    AssignedPodAdded,
    Assume,
    Forget,
    Nominate,
    Unnominate,
)
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from tests.kit import structs


def pod(uid: str = "u", *, on: str = "", nominated: str = "") -> Pod:
    return structs.pod(uid=uid, node=on, status={"nominatedNodeName": nominated})


def node_of(cache: CacheState) -> str:
    return cache.snapshot().nominations.node_of("ns/p")


def test_until_the_pod_is_assumed_and_not_again_after_forget() -> None:
    cache, info = CacheState(), PodInfo(pod(nominated="n"))
    cache.handle(Nominate(info, "n"))
    cache.handle(Assume(info, "m"))
    assert node_of(cache) == ""
    cache.handle(Forget(info, "m"))
    assert node_of(cache) == ""


def test_until_another_scheduler_has_bound_the_pod() -> None:
    cache = CacheState()
    cache.handle(Nominate(PodInfo(pod()), "n"))
    cache.handle(AssignedPodAdded(pod(on="m")))
    assert node_of(cache) == ""


def test_messages_about_another_pod_of_the_name_do_not_end_it() -> None:
    cache = CacheState()
    cache.handle(Nominate(PodInfo(pod("new")), "n"))
    cache.handle(AssignedPodAdded(pod("old", on="m")))
    cache.handle(Unnominate("ns/p", "old"))
    assert node_of(cache) == "n"
    cache.handle(Unnominate("ns/p", "new"))
    assert node_of(cache) == ""
