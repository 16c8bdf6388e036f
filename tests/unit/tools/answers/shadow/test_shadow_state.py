"""The state in which the shadow judges: which changes count, and in which order."""

from __future__ import annotations

from typing import Any

from berth.actors.informer.routing import route_node, route_pod
from berth.actors.informer.state import Change
from berth.actors.messages.cache import ObjectPut
from berth.actors.scheduling.kube.core import Node, Pod, Service
from berth.actors.scheduling.kube.reading import Reader
from berth.actors.scheduling.kube.storage import PersistentVolume, PersistentVolumeClaim
from berth.actors.wiring.profiles import profiles_of
from berth.config.load import from_mapping
from berth.tools.answers.explain.plugin_handle import ReadOnlyHandle
from berth.tools.answers.shadow.placement_judge import Agreement
from berth.tools.answers.shadow.shadow_state import MOMENT, Placement, ShadowState
from tests.kit.daemon import node, pod
from tests.kit.documents import Document

PROFILES = profiles_of(from_mapping(None), ReadOnlyHandle())


class Cluster:
    """A shadow of a cluster whose changes come at once."""

    def __init__(self, *documents: Document, begun: bool = True) -> None:
        self.now = 0.0
        self.state = ShadowState(PROFILES)
        self._pods: dict[str, Pod] = {}
        self._nodes: dict[str, Node] = {}
        for document in documents:
            self.put(document)
        if begun:
            self.state.begin()

    def put(self, document: Document) -> None:
        name: str = document["metadata"]["name"]
        if document["kind"] == "Node":
            changed = Reader(Node).convert(document)
            routed = route_node(Change(self._nodes.get(name), changed))
            self._nodes[name] = changed
        else:
            item = Reader(Pod).convert(document)
            routed = route_pod(Change(self._pods.get(name), item), PROFILES.keys())
            self._pods[name] = item
        self._take(routed)

    def delete(self, name: str) -> None:
        self._take(route_pod(Change(self._pods.pop(name), None), PROFILES.keys()))

    def _take(self, routed: Any) -> None:
        for messages in routed:
            for message in messages:
                self.state.take(message, self.now)

    def bind(self, name: str, node: str, **spec: Any) -> None:
        self.put(pod(name, nodeName=node, **spec))

    def judged(self) -> list[Placement]:
        """Returns the placements that are judged a moment later."""
        self.now += MOMENT
        return list(self.state.due(self.now))


def test_a_pod_is_judged_a_moment_after_its_binding() -> None:
    cluster = Cluster(node("a"), node("b"), pod("web"))
    cluster.bind("web", "a")
    assert list(cluster.state.due(MOMENT / 2)) == []
    placement = Placement("default/web", "a", Agreement.TIE, "2 nodes are equally good")
    assert cluster.judged() == [placement]


def test_what_is_bound_before_the_beginning_is_not_judged() -> None:
    cluster = Cluster(node("a"), pod("web"), begun=False)
    cluster.bind("web", "a")
    assert cluster.judged() == []
    cluster.state.begin()
    cluster.put(pod("later"))
    cluster.bind("later", "a")
    assert [placement.pod for placement in cluster.judged()] == ["default/later"]


def test_a_pod_that_comes_with_a_node_is_not_judged() -> None:
    cluster = Cluster(node("a"))
    cluster.bind("static", "a")
    assert cluster.judged() == []


def test_a_pod_of_another_scheduler_is_not_judged() -> None:
    cluster = Cluster(node("a"))
    cluster.put(pod("web", schedulerName="another"))
    cluster.bind("web", "a", schedulerName="another")
    assert cluster.judged() == []


def test_a_pod_is_skipped_if_an_extender_takes_part() -> None:
    cluster = Cluster(node("a"), pod("web"))
    cluster.state = ShadowState(PROFILES, lambda pod: pod.metadata.name == "web")
    cluster.put(node("a"))
    cluster.put(pod("web"))
    cluster.state.begin()
    cluster.bind("web", "a")
    assert cluster.judged() == []
    assert cluster.state.skipped == 1


def test_a_gated_pod_holds_the_room_that_it_came_with_as_the_version_says() -> None:
    """It takes all room of the only node."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    status = {"nominatedNodeName": "a", "conditions": [condition]}
    gated = pod("gated", "4", priority=9, schedulingGates=[{"name": "g"}], status=status)
    for nominates_gated in (False, True):
        cluster = Cluster()
        cluster.state = ShadowState(PROFILES, nominates_gated=nominates_gated)
        for document in (node("a"), gated, pod("web")):
            cluster.put(document)
        cluster.state.begin()
        cluster.bind("web", "a")
        (placement,) = cluster.judged()
        assert (placement.agreement is Agreement.SAME) is not nominates_gated


def test_a_pod_counts_once_it_is_bound() -> None:
    cluster = Cluster(node("a"), node("b"), pod("one"), pod("two"))
    cluster.bind("one", "a")
    cluster.judged()
    cluster.judged()
    cluster.bind("two", "a")
    (second,) = cluster.judged()
    assert second.agreement is Agreement.DIFFERENT
    assert second.reason.startswith("berth prefers b")


def test_a_pod_bound_later_may_have_been_placed_first() -> None:
    """The scheduler put `big` on a, and then `small` on b; the bindings came the other way."""
    cluster = Cluster(node("a", "5"), node("b"), pod("big", "2"), pod("small", "500m"))
    cluster.bind("small", "b", cpu="500m")
    cluster.bind("big", "a", cpu="2")
    small, big = cluster.judged()
    assert (small.agreement, small.reason) == (
        Agreement.ORDER,
        "pods that were bound in another order were placed in the queue's",
    )
    assert big.agreement is Agreement.SAME


def test_a_pod_that_comes_later_in_the_queue_is_no_excuse() -> None:
    cluster = Cluster(node("a", "5"), node("b"), pod("small", "500m"), pod("big", "2"))
    cluster.bind("small", "b", cpu="500m")
    cluster.bind("big", "a", cpu="2")
    small, _ = cluster.judged()
    assert small.agreement is Agreement.DIFFERENT


def test_a_pod_that_has_failed_comes_at_any_time() -> None:
    failed = pod("big", "2")
    failed["status"]["conditions"] = [{"type": "PodScheduled", "status": "False"}]
    cluster = Cluster(node("a", "5"), node("b"), pod("small", "500m"), failed)
    cluster.bind("small", "b", cpu="500m")
    cluster.bind("big", "a", cpu="2")
    small, _ = cluster.judged()
    assert small.agreement is Agreement.ORDER


def test_a_pod_of_higher_priority_comes_first() -> None:
    cluster = Cluster(node("a", "5"), node("b"))
    cluster.put(pod("small", "500m"))
    cluster.put(pod("big", "2", priority=10))
    cluster.bind("small", "b", cpu="500m")
    cluster.bind("big", "a", cpu="2", priority=10)
    small, _ = cluster.judged()
    assert small.agreement is Agreement.ORDER


def test_a_pod_is_forgotten_with_its_moment() -> None:
    cluster = Cluster(node("a"), pod("web"), pod("gone"))
    cluster.bind("web", "a")
    cluster.delete("gone")
    cluster.judged()
    cluster.now += 2 * MOMENT
    cluster.put(pod("other", nodeName="a"))
    cluster.judged()
    assert (cluster.state._pending, cluster.state._turns) == ({}, {})


def test_a_change_of_the_last_moment_may_have_come_too_late() -> None:
    """A pod left b while the scheduler bound `web` to a."""
    cluster = Cluster(node("a"), node("b"), pod("busy", nodeName="b"), pod("web"))
    cluster.delete("busy")
    cluster.put(pod("other", nodeName="a"))
    cluster.bind("web", "a")
    (placement,) = cluster.judged()
    assert placement.agreement is Agreement.ORDER
    assert placement.reason == "the last change came after it"


def test_a_change_may_have_come_too_late_though_pods_kept_their_order() -> None:
    """`web` did not fit on b before `busy` left. It would have, before `failed` came, which as a
    pod that failed may have come at any time.
    """
    cluster = Cluster(
        node("a"),
        node("b", "8"),
        pod("other", nodeName="a", cpu="1900m"),
        pod("busy", nodeName="b", cpu="5"),
        failed(pod("failed", "2")),
        pod("web", "2"),
    )
    cluster.judged()
    cluster.put(failed(pod("failed", "2", nodeName="b")))
    cluster.delete("busy")
    cluster.bind("web", "a", cpu="2")
    _, web = cluster.judged()
    assert web.agreement is Agreement.ORDER
    assert web.reason == "the last change came after it"


def test_a_change_of_a_node_may_be_seen_after_the_binding_that_it_led_to() -> None:
    """Two watches: the scheduler had seen the taint of b when it placed `web` on a."""
    cluster = Cluster(node("a"), node("b"), pod("busy", nodeName="a"), pod("web"))
    cluster.bind("web", "a")
    cluster.put(tainted("b"))
    cluster.put(node("c"))
    (placement,) = cluster.judged()
    assert placement.agreement is Agreement.ORDER
    assert placement.reason == "the next change came before it"
    cluster.judged()
    cluster.judged()
    cluster.put(pod("other"))
    cluster.bind("other", "b")
    (other,) = cluster.judged()
    assert other.reason == "berth rejects b: TaintToleration: node(s) had untolerated taint(s)"


def test_a_change_of_a_node_a_moment_after_the_binding_is_no_excuse() -> None:
    cluster = Cluster(node("a"), node("b"), pod("busy", nodeName="a"), pod("web"))
    cluster.bind("web", "a")
    cluster.now += 1.1 * MOMENT
    cluster.put(tainted("b"))
    (placement,) = cluster.state.due(cluster.now)
    assert placement.agreement is Agreement.DIFFERENT


def test_an_announced_node_is_the_result_and_no_reason() -> None:
    cluster = Cluster(node("a"), node("b"), pod("busy", nodeName="b", cpu="2"), pod("web"))
    announced = pod("web")
    announced["status"]["nominatedNodeName"] = "b"
    cluster.put(announced)
    cluster.bind("web", "b")
    (placement,) = cluster.judged()
    assert placement.agreement is Agreement.DIFFERENT


def test_many_changes_of_the_last_moment_may_have_come_too_late() -> None:
    """Ten pods left b while the scheduler bound `web` to a."""
    busy = [pod(f"busy-{number}", nodeName="b", cpu="200m") for number in range(10)]
    cluster = Cluster(node("a"), node("b"), *busy, pod("web"))
    cluster.put(pod("other", nodeName="a", cpu="1900m"))
    cluster.judged()
    cluster.judged()
    for number in range(10):
        cluster.delete(f"busy-{number}")
    cluster.bind("web", "a")
    (placement,) = cluster.judged()
    assert placement.agreement is Agreement.ORDER
    assert placement.reason == "the last 10 changes came after it"


def test_a_claim_that_is_seen_after_its_pod_counts_at_once() -> None:
    reference = {"namespace": "default", "name": "data"}
    bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    claim = {"metadata": reference | bound, "spec": {"volumeName": "pv"}}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    cluster = Cluster(node("a"))
    volume = {
        "metadata": {"name": "pv"},
        "spec": {"claimRef": {"namespace": "default", "name": "data"}},
    }
    cluster.state.take(ObjectPut(Reader(PersistentVolume).convert(volume)), 0.0)
    cluster.put(pod("web", volumes=volumes))
    cluster.bind("web", "a", volumes=volumes)
    cluster.state.take(ObjectPut(Reader(PersistentVolumeClaim).convert(claim)), 0.1)
    (placement,) = cluster.judged()
    assert placement.agreement is Agreement.SAME, placement.reason


def test_a_service_may_come_after_the_decision_about_its_pods() -> None:
    """It makes pods spread: without it, b is the best node for the second pod, too."""
    labels = {"topology.kubernetes.io/zone": "z", "kubernetes.io/hostname": "a"}
    cluster = Cluster(
        node("a", **labels), node("b", "64", **labels | {"kubernetes.io/hostname": "b"})
    )
    cluster.put(labelled("one"))
    cluster.put(labelled("two"))
    cluster.put(labelled("one", nodeName="b"))
    cluster.judged()
    cluster.judged()
    service = {
        "metadata": {"namespace": "default", "name": "s"},
        "spec": {"selector": {"app": "x"}},
    }
    cluster.state.take(ObjectPut(Reader(Service).convert(service)), cluster.now)
    cluster.put(labelled("two", nodeName="b"))
    (placement,) = cluster.judged()
    assert placement.agreement is Agreement.ORDER
    assert placement.reason == "the last change came after it"


def labelled(name: str, **spec: Any) -> Document:
    document = pod(name, **spec)
    document["metadata"]["labels"] = {"app": "x"}
    return document


def tainted(name: str) -> Document:
    document = node(name)
    document["spec"]["taints"] = [{"key": "team", "effect": "NoSchedule"}]
    return document


def announced(name: str, node: str, **spec: Any) -> Document:
    document = pod(name, **spec)
    document["status"]["nominatedNodeName"] = node
    return document


def failed(document: Document, message: str = "") -> Document:
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    document["status"]["conditions"] = [condition]
    return document


def test_a_pod_counts_once_its_node_is_announced() -> None:
    """Its volume is provisioned for seconds; the pods that are placed meanwhile leave it room."""
    cluster = Cluster(node("a", "5"), node("b"), pod("slow", "2"), pod("web"))
    cluster.put(announced("slow", "a", cpu="2"))
    cluster.now += 3 * MOMENT
    cluster.bind("web", "b")
    slow, web = cluster.judged()
    assert (slow.pod, slow.agreement) == ("default/slow", Agreement.SAME)
    assert (web.pod, web.agreement) == ("default/web", Agreement.SAME)
    cluster.bind("slow", "a", cpu="2")
    assert cluster.judged() == []


def test_a_pod_that_failed_before_counts_once_its_node_is_announced() -> None:
    cluster = Cluster(node("a", "5"), node("b"), failed(pod("slow", "2")), pod("web"))
    cluster.put(failed(announced("slow", "a", cpu="2")))
    cluster.now += 3 * MOMENT
    cluster.bind("web", "b")
    assert [each.agreement for each in cluster.judged()] == [Agreement.SAME] * 2


def test_a_pod_is_on_no_node_once_its_binding_fails() -> None:
    cluster = Cluster(node("a", "5"), node("b"), pod("slow", "2"), pod("web"))
    cluster.put(announced("slow", "a", cpu="2"))
    cluster.put(failed(pod("slow", "2")))
    cluster.now += 3 * MOMENT
    cluster.bind("web", "a")
    _, web = cluster.judged()
    assert web.agreement is Agreement.TIE


def test_a_pod_that_is_deleted_on_its_way_is_on_no_node() -> None:
    cluster = Cluster(node("a", "5"), node("b"), pod("slow", "2"), pod("web"))
    cluster.put(announced("slow", "a", cpu="2"))
    cluster.delete("slow")
    cluster.now += 3 * MOMENT
    cluster.bind("web", "a")
    _, web = cluster.judged()
    assert web.agreement is Agreement.TIE


def test_a_pod_bound_elsewhere_than_announced_is_judged_there() -> None:
    cluster = Cluster(node("a", "5"), node("b"), pod("web", "2"))
    cluster.put(announced("web", "a", cpu="2"))
    cluster.now += 3 * MOMENT
    cluster.bind("web", "b", cpu="2")
    first, second = cluster.judged()
    assert (first.node, first.agreement) == ("a", Agreement.SAME)
    assert (second.node, second.agreement) == ("b", Agreement.DIFFERENT)


def test_a_nominated_pod_goes_where_it_made_room() -> None:
    cluster = Cluster(node("a"), node("b"), pod("busy", nodeName="b", cpu="2"), pod("web"))
    nominated = pod("web")
    nominated["status"] |= {
        "nominatedNodeName": "b",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }
    cluster.put(nominated)
    cluster.bind("web", "b")
    (placement,) = cluster.judged()
    assert placement.agreement is Agreement.SAME


def test_a_pod_that_is_nominated_again_with_the_same_message_is_not_announced() -> None:
    """It preempted on a, which somebody else took, and then on b. Meanwhile somebody may have
    cleared its nomination.
    """
    for cleared in (False, True):
        busy = [pod(f"busy-{each}", nodeName=each, cpu="4") for each in ("a", "b")]
        cluster = Cluster(node("a"), node("b"), *busy, pod("web", "2"))
        cluster.put(failed(announced("web", "a", cpu="2")))
        if cleared:
            cluster.put(failed(pod("web", "2")))
        cluster.put(failed(announced("web", "b", cpu="2")))
        cluster.delete("busy-b")
        cluster.bind("web", "b", cpu="2")
        assert [(each.node, each.agreement) for each in cluster.judged()] == [("b", Agreement.SAME)]


def test_a_pod_that_comes_nominated_is_not_announced_when_it_is_nominated_again() -> None:
    busy = [pod(f"busy-{each}", nodeName=each, cpu="4") for each in ("a", "b")]
    cluster = Cluster(node("a"), node("b"), *busy, failed(announced("web", "a", cpu="2")))
    cluster.put(failed(announced("web", "b", cpu="2")))
    assert cluster.judged() == []
    cluster.delete("busy-b")
    cluster.bind("web", "b", cpu="2")
    (placement,) = cluster.judged()
    assert placement.agreement is Agreement.SAME


def test_a_pod_that_failed_again_after_a_nomination_may_be_announced() -> None:
    cluster = Cluster(node("a", "5"), node("b"), pod("slow", "2"), pod("web"))
    cluster.put(failed(announced("slow", "b", cpu="2"), "made room"))
    cluster.put(failed(pod("slow", "2"), "found none to preempt"))
    cluster.put(failed(announced("slow", "a", cpu="2"), "found none to preempt"))
    cluster.now += 3 * MOMENT
    cluster.bind("web", "b")
    assert [each.agreement for each in cluster.judged()] == [Agreement.SAME] * 2


def test_a_pod_that_is_deleted_while_it_waits_is_forgotten() -> None:
    cluster = Cluster(node("a"), pod("web"))
    cluster.delete("web")
    assert cluster.judged() == []
    assert cluster.state._pending == {}
