"""Whether the nomination of a pod holds its room in the cluster that a question is about."""

from __future__ import annotations

from typing import Any

import pytest

from berth.config.feature_gates import defaults_of
from berth.config.versions import VERSIONS
from berth.tools.answers.explain.document_cluster import DocumentCluster
from tests.kit.documents import Document, node, thing

GATES = [{"name": "example.com/wait"}]


def pod(nominated: str, **spec: Any) -> Document:
    spec = {"schedulerName": "default-scheduler", "containers": [{"name": "c"}], **spec}
    status = {"nominatedNodeName": nominated} if nominated else {}
    return thing("Pod", "p", uid="p", spec=spec, status=status)


class Nominated(DocumentCluster):
    """The cluster of a node and of the pod p."""

    def __init__(self, minor: int, document: Document) -> None:
        super().__init__({"default-scheduler"}, gates=defaults_of(VERSIONS[minor]))
        self.document = document
        self.put(node("n"))
        self.put(document)

    def becomes(self, document: Document) -> None:
        self.replace(self.document, document)
        self.document = document

    def held(self) -> bool:
        return bool(self.snapshot().nominations.on("n"))


@pytest.mark.parametrize(("minor", "while_gated"), [(36, False), (37, True)])
def test_a_gated_pod_holds_its_room_as_the_version_says(minor: int, while_gated: bool) -> None:
    cluster = Nominated(minor, pod("n", schedulingGates=GATES))
    assert cluster.held() is while_gated
    cluster.becomes(pod("n"))
    assert cluster.held()


@pytest.mark.parametrize(
    "after",
    [
        pod(""),
        pod("n", schedulerName="other"),
        {**pod("n"), "status": {"nominatedNodeName": "n", "phase": "Failed"}},
    ],
)
def test_an_update_that_ends_a_nomination_gives_the_room_back(after: Document) -> None:
    cluster = Nominated(37, pod("n"))
    assert cluster.held()
    cluster.becomes(after)
    assert not cluster.held()
