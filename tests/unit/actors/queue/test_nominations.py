"""Which nominations the queue sends to the cache, and when it takes them back."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from berth.actors.messages.cache import Nominate, Unnominate
from berth.actors.messages.queue import (
    Activate,
    ClusterChanged,
    Displace,
    PendingPodAdded,
    PendingPodUpdated,
    PodNoLongerPending,
    QueuedPod,
    QueueMessage,
)
from berth.actors.messages.recorder import SetNominatedNode
from berth.actors.scheduling.framework.events import ASSIGNED_POD_DELETE
from berth.actors.scheduling.kube.core import Pod
from tests.kit.queue import Harness, make_pod, rejected

PODS = frozenset({"Pods"})


def nominated(node: str, uid: str = "p", label: str = "") -> Pod:
    pod = make_pod("p", uid=uid)
    metadata = msgspec.structs.replace(pod.metadata, labels={"label": label})
    status = msgspec.structs.replace(pod.status, nominated_node_name=node)
    return msgspec.structs.replace(pod, metadata=metadata, status=status)


class Nominated:
    """A queue, and the nominations that it has sent to the cache."""

    def __init__(self, **rules: bool) -> None:
        self.queue = Harness(**rules)
        self.counted: dict[str, str] = {}

    def send(self, message: QueueMessage) -> str:
        """Returns the node that the pod is nominated to after this message."""
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
        return self.send(rejected(queued, *PODS, node=node))


@pytest.fixture
def cached() -> Nominated:
    return Nominated()


def test_a_gated_pod_is_nominated_by_its_status_once_it_is_active(cached: Nominated) -> None:
    cached.queue.shut = True
    assert cached.send(PendingPodAdded(nominated("n"))) == ""
    cached.queue.shut = False
    assert cached.send(Activate(("ns/p",))) == "n"
    assert cached.send(PodNoLongerPending(nominated("n"))) == ""


@pytest.mark.parametrize("shut", [True, False])
@pytest.mark.parametrize("nominates_gated", [True, False])
def test_the_rule_says_whether_a_gated_pod_holds_its_room(
    nominates_gated: bool, shut: bool
) -> None:
    """Kubernetes 1.37 nominates every pod that comes: addPod in its scheduling_queue.go."""
    cached = Nominated(nominates_gated=nominates_gated)
    cached.queue.shut = shut
    held = "n" if nominates_gated or not shut else ""
    assert cached.send(PendingPodAdded(nominated("n"))) == held
    cached.queue.shut = False
    assert cached.send(Activate(("ns/p",))) == "n"
    assert cached.send(PendingPodAdded(nominated("n", uid="q"))) == "n"  # the pod before is gone
    assert cached.counted == {"q": "n"}


def test_a_gated_pod_keeps_its_latest_nomination() -> None:
    cached = Nominated(nominates_gated=True)
    cached.queue.shut = True
    assert cached.send(PendingPodAdded(nominated("n"))) == "n"
    assert cached.send(PendingPodUpdated(nominated("n"), nominated("m"))) == "m"
    cached.queue.shut = False
    assert cached.send(Activate(("ns/p",))) == "m"
    assert cached.send(PodNoLongerPending(nominated("m"))) == ""


def test_a_gated_pod_that_goes_gives_its_room_back() -> None:
    cached = Nominated(nominates_gated=True)
    cached.queue.shut = True
    assert cached.send(PendingPodAdded(nominated("n"))) == "n"
    assert cached.send(PodNoLongerPending(nominated("n"))) == ""


@pytest.mark.parametrize("before", ["", "n", "m"])
def test_an_update_nominates_a_gated_pod(cached: Nominated, before: str) -> None:
    cached.queue.shut = True
    assert cached.send(PendingPodAdded(nominated(before))) == ""
    assert cached.send(PendingPodUpdated(nominated(before), nominated("n", label="x"))) == "n"
    assert cached.send(PendingPodUpdated(nominated("n", label="x"), nominated("n"))) == "n"
    assert cached.queue.where("p") == "gated"
    assert cached.send(PendingPodUpdated(nominated("n"), nominated(""))) == ""
    assert cached.send(PendingPodUpdated(nominated(""), nominated("n"))) == "n"
    assert cached.send(PodNoLongerPending(nominated("n"))) == ""


def test_the_nomination_follows_a_change_of_the_status(cached: Nominated) -> None:
    assert cached.send(PendingPodAdded(nominated(""))) == ""
    assert cached.send(PendingPodUpdated(nominated(""), nominated("n"))) == "n"
    assert cached.send(PendingPodUpdated(nominated("n"), nominated("n", label="x"))) == "n"
    assert cached.send(PendingPodUpdated(nominated("n", label="x"), nominated(""))) == ""


@pytest.mark.parametrize("status", ["", "n"])
def test_an_attempt_sets_keeps_or_clears_the_nomination(cached: Nominated, status: str) -> None:
    """An update with the same nomination in the status changes nothing: our own decision may not be
    written yet.
    """
    cached.send(PendingPodAdded(nominated(status)))
    queued = cached.queue.pop()
    assert cached.fail(queued, "m") == "m"
    assert cached.send(PendingPodUpdated(nominated(status), nominated(status, label="x"))) == "m"
    cached.queue.now = 10.0
    cached.send(ClusterChanged(ASSIGNED_POD_DELETE))
    queued = cached.queue.pop()
    assert cached.fail(queued, None) == "m"
    cached.queue.now = 20.0
    cached.send(ClusterChanged(ASSIGNED_POD_DELETE))
    queued = cached.queue.pop()
    assert cached.fail(queued, "") == ""
    assert cached.send(PendingPodUpdated(nominated(status, label="x"), nominated(status))) == ""


def test_the_status_counts_if_the_attempt_decides_nothing_about_the_nomination(
    cached: Nominated,
) -> None:
    cached.send(PendingPodAdded(nominated("n")))
    queued = cached.queue.pop()
    assert cached.send(PendingPodUpdated(nominated("n"), nominated("m"))) == "n"
    assert cached.fail(queued, None) == "m"


@pytest.mark.parametrize("flying", [True, False])
def test_the_nomination_ends_with_the_pod(cached: Nominated, flying: bool) -> None:
    cached.send(PendingPodAdded(nominated("n")))
    if flying:
        queued = cached.queue.pop()
    assert cached.send(PodNoLongerPending(nominated("n"))) == ""
    if flying:
        assert cached.fail(queued, "m") == ""


def test_another_pod_of_the_name_does_not_take_the_nomination_over(cached: Nominated) -> None:
    cached.send(PendingPodAdded(nominated("n")))
    assert cached.send(PendingPodUpdated(nominated("n"), nominated("", uid="other"))) == ""


@pytest.mark.parametrize("flying", [True, False])
def test_a_displaced_pod_loses_its_nomination_and_is_tried_again(
    cached: Nominated, flying: bool
) -> None:
    cached.send(PendingPodAdded(nominated("n")))
    queued = cached.queue.pop()
    if not flying:
        cached.fail(queued, None)
    effects = cached.queue.send(Displace(queued.info, "n"))
    assert SetNominatedNode(queued.info.pod, "") in effects
    assert Unnominate("ns/p", "p") in effects
    if flying:
        cached.fail(queued, "")
    assert cached.queue.where("p") == "backoff"


def test_a_pod_that_was_nominated_to_another_node_meanwhile_is_not_displaced(
    cached: Nominated,
) -> None:
    cached.send(PendingPodAdded(nominated("n")))
    queued = cached.queue.pop()
    cached.fail(queued, "m")
    assert not cached.queue.send(Displace(queued.info, "n"))
    assert cached.queue.where("p") == "unschedulable"
