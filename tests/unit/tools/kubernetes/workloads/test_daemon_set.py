"""How a daemon set replaces the pods of an old template, node by node."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from berth.tools.kubernetes.objects.documents import reference_to
from berth.tools.kubernetes.objects.structs import DaemonSet, Document, Node, Pod, PodSpec, read
from berth.tools.kubernetes.objects.writes import Again, Create, Delete, Patch
from berth.tools.kubernetes.workloads.daemon_failures import FailedPods
from berth.tools.kubernetes.workloads.daemon_set import reconcile, target_node
from berth.tools.kubernetes.workloads.revisions import HASH, empty_history

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
READY, FRESH, NEVER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:50Z", None
SURGE: Document = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def daemon_set(strategy: Document | None = None, **spec: Any) -> DaemonSet:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"image": "i"}]}}
    selected = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
    updates = {"type": "RollingUpdate", **(strategy or {})}
    document = {
        "metadata": {"name": "d", "namespace": "n", "uid": "u"},
        "spec": {**selected, "updateStrategy": updates, **spec},
    }
    return read(document, DaemonSet)


def pod(
    node: str, name: str = "", ready: str | None = READY, phase: str = "Running", **more: str
) -> Pod:
    """Returns a pod on a node, ready since then: of an old template, or new if it has a name."""
    owner = daemon_set()
    metadata: Document = {
        "name": name or f"old-{node}",
        "namespace": "n",
        "uid": name or f"old-{node}",
        "labels": {"app": "x", HASH: empty_history(owner).hash if name else "old"},
        "ownerReferences": [{**reference_to(owner), "controller": True}],
        **more,
    }
    condition = {"type": "Ready", "status": str(ready is not None), "lastTransitionTime": ready}
    status = {"phase": phase, "conditions": [condition]}
    return read({"metadata": metadata, "spec": {"nodeName": node}, "status": status}, Pod)


def test_a_set_whose_selector_leaves_out_its_own_pods_makes_none() -> None:
    assert result(daemon_set(selector={"matchLabels": {"app": "other"}})) == []


def result(owner: DaemonSet, *pods: Pod, nodes: str = "ab", cordoned: str = "") -> list[str]:
    """Returns the nodes that get a pod (+) and the names of the pods that are deleted (-)."""
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    of = [
        read({"metadata": {"name": name}, "spec": {"taints": [taint] * (name in cordoned)}}, Node)
        for name in nodes
    ]
    names = []
    for write in reconcile(owner, pods, of, NOW):
        if isinstance(write, Create) and write.kind == "Pod":
            names.append(f"+{target_node(read(write.document, Pod))}")
        elif isinstance(write, Delete):
            names.append(f"-{write.name}")
    return names


def test_old_pods_that_are_not_available_go_at_once() -> None:
    owner = daemon_set(minReadySeconds=30)
    assert result(owner, pod("a", ready=FRESH), pod("b", ready=FRESH)) == ["-old-a", "-old-b"]
    assert result(owner, pod("a"), pod("b")) == ["-old-a"]


def test_a_new_pod_that_is_not_available_holds_up_the_next() -> None:
    owner = daemon_set(minReadySeconds=30)
    assert result(owner, pod("a", "new", FRESH), pod("b")) == []
    assert result(owner, pod("a", "new"), pod("b")) == ["-old-b"]


def test_a_surge_adds_the_new_pod_before_the_old_one_goes() -> None:
    owner = daemon_set(SURGE)
    assert result(owner, pod("a"), pod("b")) == ["+a"]
    assert result(owner, pod("a"), pod("a", "new", NEVER), pod("b")) == []
    assert result(owner, pod("a"), pod("a", "new"), pod("b")) == ["-old-a"]
    assert result(owner, pod("a", "new"), pod("b")) == ["+b"]


def test_a_surge_replaces_pods_that_are_not_available_at_once() -> None:
    owner = daemon_set(SURGE)
    assert result(owner, pod("a", ready=NEVER), pod("b", ready=NEVER)) == ["+a", "+b"]
    assert result(owner, pod("a", ready=NEVER), pod("a", "new", NEVER)) == ["-old-a", "+b"]


def test_a_surge_keeps_an_old_pod_that_is_surplus_until_others_are_available() -> None:
    owner = daemon_set(SURGE)
    # The node a is no longer meant; its pod may stay, as the taint has no effect NoExecute.
    assert result(owner, pod("a"), pod("b", "new", NEVER), cordoned="a") == []
    assert result(owner, pod("a"), pod("b", "new"), cordoned="a") == ["-old-a"]
    assert result(owner, pod("a", ready=NEVER), pod("b", "new"), cordoned="a") == ["-old-a"]


def test_more_than_one_of_each_revision_goes() -> None:
    owner = daemon_set(SURGE)
    old = pod("a", creationTimestamp=READY)
    pods = [old, *(pod("a", f"new-{i}", NEVER, creationTimestamp=FRESH) for i in (1, 2))]
    assert result(owner, *pods, nodes="a") == ["-new-2"]
    assert result(daemon_set(), *pods, nodes="a") == ["-new-1", "-new-2"]


def test_a_finished_pod_goes_also_where_no_new_one_may_come() -> None:
    assert result(daemon_set(), pod("a", phase="Failed"), nodes="a", cordoned="a") == ["-old-a"]


def test_the_status_counts_pods_that_end_and_failed_ones_that_stay() -> None:
    def ending(pod: Pod) -> Pod:
        metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=READY)
        return msgspec.structs.replace(pod, metadata=metadata)

    nodes = [read({"metadata": {"name": name}}, Node) for name in "abcd"]
    failed, spec = FailedPods(), {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    nodes.append(read({"metadata": {"name": "e"}, "spec": spec}, Node))
    assert failed.wait("c", 0, NOW) == 0.0
    pods = [ending(pod("a", "new")), pod("b"), pod("c", "late", NEVER, "Failed"), pod("e")]
    pods += [ending(pod("d", "gone", NEVER, "Failed")), pod("gone", "lost")]
    writes = reconcile(daemon_set(), pods, nodes, NOW, failed=failed)
    (status,) = (write.body["status"] for write in writes if isinstance(write, Patch))
    counts = {"desired": 4, "current": 3, "ready": 2, "updated": 2, "misscheduled": 1}
    assert counts == {
        "desired": status["desiredNumberScheduled"],
        "current": status["currentNumberScheduled"],
        "ready": status["numberReady"],
        "updated": status["updatedNumberScheduled"],
        "misscheduled": status["numberMisscheduled"],
    }
    created = [write.document for write in writes if isinstance(write, Create)]
    assert [target_node(read(document, Pod)) for document in created] == ["d"]


def test_without_surge_and_unavailable_pods_one_may_be_unavailable() -> None:
    owner = daemon_set({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}})
    assert result(owner, pod("a"), pod("b")) == ["-old-a"]


def test_a_pod_that_waits_for_a_node_that_is_gone_goes() -> None:
    waiting = pod("a", "waiting", phase="Pending")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = read({"affinity": {"nodeAffinity": affinity}}, PodSpec)
    unbound = msgspec.structs.replace(waiting, spec=spec)
    assert result(daemon_set(), unbound, pod("away", "bound"), nodes="") == ["-waiting"]


def test_failed_pods_of_a_node_stay_longer_each_time() -> None:
    owner, failed, now = daemon_set(), FailedPods(), NOW
    node = read({"metadata": {"name": "a"}}, Node)
    lost = [pod("a", "new", phase="Failed")]

    def decided() -> list[float | str]:
        """Returns the names of deleted pods, and the seconds until the next decision."""
        writes = reconcile(owner, lost, [node], now, failed=failed)
        names = [write.name for write in writes if isinstance(write, Delete)]
        return [*names, *(write.seconds for write in writes if isinstance(write, Again))]

    for wait in (1, 2, 4, 8):
        assert decided() == ["new"], "it has stayed long enough"
        now += timedelta(seconds=wait - 0.1)
        assert decided() == [wait]
        now += timedelta(seconds=0.1)
    for _ in range(20):
        now += timedelta(seconds=900)
        assert decided() == ["new"], "it stays for 15 minutes at most"
    now += timedelta(seconds=1801)
    assert decided() == ["new"]
    now += timedelta(seconds=1)
    assert decided() == ["new"], "what failed long ago is forgotten"
    lost = [pod("a", "new", phase="Succeeded")]
    assert decided() == ["new"], "a pod that succeeded does not wait"


def test_nothing_surges_on_delete() -> None:
    owner = daemon_set({**SURGE, "type": "OnDelete"})
    ending = pod("a", deletionTimestamp=FRESH)
    assert result(owner, ending, nodes="a") == [], "the new pod waits for the end of the old one"
    assert result(daemon_set(SURGE), ending, nodes="a") == ["+a"]


def test_of_pods_of_one_age_the_first_by_name_stays() -> None:
    twins = [pod("a", name, creationTimestamp=READY) for name in ("y", "x")]
    assert result(daemon_set(), *twins, nodes="a") == ["-y"]


def test_a_daemon_set_that_is_being_deleted_is_left_as_it_is() -> None:
    owner = daemon_set()
    metadata = msgspec.structs.replace(owner.metadata, deletion_timestamp=FRESH)
    owner = msgspec.structs.replace(owner, metadata=metadata)
    node = read({"metadata": {"name": "a"}}, Node)
    assert reconcile(owner, [pod("a", ready=NEVER)], [node], NOW) == []
