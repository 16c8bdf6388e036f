"""A tried cluster: what plugins and the snapshot see of each change, and that all is put back."""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.scheduling.decision.plain import Plain
from berth.actors.scheduling.kube.storage import StorageClass
from berth.config.load import from_mapping
from berth.tools.answers.explain.cluster_source import ClusterQuestion, SourceError
from berth.tools.answers.explain.decider import Explainer, fitting_nodes
from berth.tools.answers.explain.tried_cluster import TriedCluster, asked
from tests.kit.changes import CONFIGURATION
from tests.kit.daemon import node, pod
from tests.kit.documents import Document, thing

WEB = "Pod", "default", "web"
CONFIGURATION_OF = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}
CLASS = thing("StorageClass", "fast", provisioner="example.com/disks")


def cluster(*more: Document) -> TriedCluster:
    running = [pod(name, "1", nodeName="n1") for name in ("a", "b", "c")]
    return TriedCluster(Explainer(CONFIGURATION), [node("n1"), node("n2"), *running, *more])


def seen(tried: TriedCluster) -> tuple[Any, ...]:
    """Returns what the documents, the snapshot and the plugins' objects tell, in order."""
    columns = tried.snapshot().columns
    rows = [name for name, _ in sorted(columns.row_of.items(), key=lambda of: of[1])]
    pods = {name: tried.pods_on(name) for name in rows}
    held = [each.metadata.name for each in tried.explainer.handle.objects.every(StorageClass)]
    return sorted(map(repr, tried.all())), list(tried.node_infos()), pods, held


def hosts(tried: TriedCluster) -> list[str]:
    """Returns the nodes that the pod web fits on."""
    attempt = tried.attempt(WEB)
    return sorted(fitting_nodes(Plain(attempt.profile, attempt.info, attempt.snapshot)))


def change_all(tried: TriedCluster) -> None:
    tried.put(pod("a", "1", nodeName="n2"))
    tried.put(pod("d", "1", nodeName="n1"))
    tried.remove(("Pod", "default", "b"))
    tried.remove(("Node", "", "n2"))
    tried.put(node("n3"))
    tried.put(CLASS)


def test_a_trial_is_undone_with_the_order_of_pods_and_nodes() -> None:
    tried = cluster()
    before = seen(tried)
    with tried.trial():
        change_all(tried)
        assert list(tried.node_infos()) == ["n1", "n3"]
        assert [name for *_, name in tried.pods_on("n1")] == ["c", "d"]
        assert tried.document("StorageClass", "fast") is CLASS
    assert seen(tried) == before


def test_a_trial_in_a_trial_is_undone_alone() -> None:
    tried = cluster()
    before = seen(tried)
    with tried.trial():
        tried.put(node("n3"))
        tried.remove(("Pod", "default", "c"))
        between = seen(tried)
        with tried.trial():
            change_all(tried)
            tried.remove(("Node", "", "n3"))
            assert seen(tried) != between
        assert seen(tried) == between
        tried.put(CLASS)
    assert seen(tried) == before


def test_a_trial_ends_with_its_error() -> None:
    tried = cluster()
    before = seen(tried)

    def fail() -> None:
        with tried.trial():
            change_all(tried)
            tried.remove(("Pod", "default", "none"))

    with pytest.raises(SourceError, match="Pod default/none does not exist"):
        fail()
    assert seen(tried) == before


def test_an_object_that_cannot_be_read_changes_nothing() -> None:
    tried = cluster()
    before = seen(tried)
    with pytest.raises(SourceError, match=r"Pod/default/a: "):
        tried.put({**pod("a", "1", nodeName="n1"), "spec": {"nodeName": 7}})
    assert seen(tried) == before


def test_decisions_by_other_plugins_are_made_in_the_trial_alone() -> None:
    tried = cluster(pod("web", "4"))
    without_fit = {
        "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}}],
    }
    assert hosts(tried) == ["n2"]
    with tried.trial():
        tried.decide_by(Explainer(from_mapping(CONFIGURATION_OF | without_fit)))
        assert hosts(tried) == ["n1", "n2"]
        tried.remove(("Node", "", "n2"))
        assert hosts(tried) == ["n1"]
    assert hosts(tried) == ["n2"]


def test_the_pod_that_is_asked_about_takes_no_room() -> None:
    bound = pod("web", "1", nodeName="n1")
    question = ClusterQuestion(
        {key: bound[key] for key in ("metadata", "spec")}, [node("n1"), node("n2")], CONFIGURATION
    )
    tried = asked(Explainer(CONFIGURATION), question).tried
    with tried.trial():
        tried.put({**bound, "spec": {**bound["spec"], "priority": 7}})
        assert tried.pods_on("n1") == []
        assert tried.attempt(WEB).info.priority == 7
        tried.remove(WEB)
    assert tried.attempt(WEB).info.priority == 0
    assert tried.pods_on("n1") == []
