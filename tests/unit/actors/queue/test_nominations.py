"""Which nominations the queue has the cache count, and until when."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from berth.actors.messages import (
    Activate,
    AttemptFailed,
    ClusterChanged,
    Displace,
    Nominate,
    PendingPodAdded,
    PendingPodDeleted,
    PendingPodUpdated,
    QueuedPod,
    QueueMessage,
    SetNominatedNode,
    Unnominate,
)
from berth.actors.scheduling.framework.events import ASSIGNED_POD_DELETE
from berth.actors.scheduling.kube.core import Pod

from tests.unit.actors.queue.test_state import Harness, make_pod

PODS = frozenset({"Pods"})


def nominated(node: str, uid: str = "p", label: str = "") -> Pod:
    pod = make_pod("p", uid=uid)
    metadata = msgspec.structs.replace(pod.metadata, labels={"label": label})
    status = msgspec.structs.replace(pod.status, nominated_node_name=node)
    return msgspec.structs.replace(pod, metadata=metadata, status=status)


class Told:
    """What the cache counts, as far as the queue told it."""

    def __init__(self) -> None:
        self.queue = Harness()
        self.counted: dict[str, str] = {}

    def send(self, message: QueueMessage) -> str:
        """Where the pod is nominated after this."""
        self._note(self.queue.send(message))
        return self.node

    def _note(self, effects: Sequence[object]) -> None:
        for effect in effects:
            if isinstance(effect, Nominate):
                self.counted[effect.info.uid] = effect.node
            elif isinstance(effect, Unnominate):
                del self.counted[effect.uid]

    @property
    def node(self) -> str:
        assert len(self.counted) <= 1
        return next(iter(self.counted.values()), "")

    def fail(self, queued: QueuedPod, node: str | None) -> str:
        return self.send(AttemptFailed(queued, PODS, nominated_node=node))


@pytest.fixture
def told() -> Told:
    return Told()


def test_by_its_status_once_it_is_active_and_not_while_it_is_gated(told: Told) -> None:
    told.queue.shut = True
    assert told.send(PendingPodAdded(nominated("n"))) == ""
    assert told.send(PendingPodUpdated(nominated("n"), nominated("m"))) == ""
    told.queue.shut = False
    assert told.send(Activate(("ns/p",))) == "m"
    assert told.send(PendingPodDeleted(nominated("m"))) == ""


def test_it_follows_the_status_where_that_changes(told: Told) -> None:
    assert told.send(PendingPodAdded(nominated(""))) == ""
    assert told.send(PendingPodUpdated(nominated(""), nominated("n"))) == "n"
    assert told.send(PendingPodUpdated(nominated("n"), nominated("n", label="x"))) == "n"
    assert told.send(PendingPodUpdated(nominated("n", label="x"), nominated(""))) == ""


@pytest.mark.parametrize("status", ["", "n"])
def test_an_attempt_sets_keeps_or_clears_it(told: Told, status: str) -> None:
    """An update that says nothing new of it changes nothing: our own word may not be written
    yet.
    """
    told.send(PendingPodAdded(nominated(status)))
    queued = told.queue.pop()
    assert told.fail(queued, "m") == "m"
    assert told.send(PendingPodUpdated(nominated(status), nominated(status, label="x"))) == "m"
    told.queue.now = 10.0
    told.send(ClusterChanged(ASSIGNED_POD_DELETE))
    queued = told.queue.pop()
    assert told.fail(queued, None) == "m"
    told.queue.now = 20.0
    told.send(ClusterChanged(ASSIGNED_POD_DELETE))
    queued = told.queue.pop()
    assert told.fail(queued, "") == ""
    assert told.send(PendingPodUpdated(nominated(status, label="x"), nominated(status))) == ""


def test_what_the_status_says_meanwhile_counts_if_the_attempt_does_not_say(told: Told) -> None:
    told.send(PendingPodAdded(nominated("n")))
    queued = told.queue.pop()
    assert told.send(PendingPodUpdated(nominated("n"), nominated("m"))) == "n"
    assert told.fail(queued, None) == "m"


@pytest.mark.parametrize("flying", [True, False])
def test_it_ends_with_the_pod(told: Told, flying: bool) -> None:
    told.send(PendingPodAdded(nominated("n")))
    if flying:
        queued = told.queue.pop()
    assert told.send(PendingPodDeleted(nominated("n"))) == ""
    if flying:
        assert told.fail(queued, "m") == ""


def test_another_pod_of_the_name_takes_none_over(told: Told) -> None:
    told.send(PendingPodAdded(nominated("n")))
    assert told.send(PendingPodUpdated(nominated("n"), nominated("", uid="other"))) == ""


@pytest.mark.parametrize("flying", [True, False])
def test_a_displaced_pod_loses_it_and_is_tried_elsewhere(told: Told, flying: bool) -> None:
    told.send(PendingPodAdded(nominated("n")))
    queued = told.queue.pop()
    if not flying:
        told.fail(queued, None)
    effects = told.queue.send(Displace(queued.info, "n"))
    assert SetNominatedNode(queued.info.pod, "") in effects
    assert Unnominate("ns/p", "p") in effects
    if flying:
        told.fail(queued, "")
    assert told.queue.where("p") == "backoff"


def test_who_is_nominated_elsewhere_by_now_is_not_displaced(told: Told) -> None:
    told.send(PendingPodAdded(nominated("n")))
    queued = told.queue.pop()
    told.fail(queued, "m")
    assert not told.queue.send(Displace(queued.info, "n"))
    assert told.queue.where("p") == "unschedulable"
