"""The template of a daemon set has a number, which grows with each change of the template."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from berth.tools.kubernetes.api.requests.media_types import MERGE
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.kubernetes.api.writes.template_generation import ANNOTATION
from berth.tools.kubernetes.objects.structs import DaemonSet, Node, read
from berth.tools.kubernetes.objects.writes import Create
from berth.tools.kubernetes.workloads.daemon_set import reconcile
from tests.kit.documents import Document

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SETS = BY_KIND["apps/v1", "DaemonSet"]


def daemon_set(**annotations: str) -> Document:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": spec}
    selected = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
    return {"metadata": {"name": "d", "annotations": annotations}, "spec": selected}


def number(stored: Document) -> str:
    annotations: dict[str, str] = stored["metadata"]["annotations"]
    return annotations[ANNOTATION]


@pytest.mark.parametrize(("own", "first"), [("", "1"), ("x", "1"), ("-3", "1"), ("7", "7")])
def test_a_new_daemon_set_begins_with_one_or_its_own_number(api: Api, own: str, first: str) -> None:
    created = api.create(SETS, "default", daemon_set(**{ANNOTATION: own}))
    assert number(created.document) == first


def test_only_changes_of_the_template_count(api: Api) -> None:
    api.create(SETS, "default", daemon_set())

    def after(change: Document) -> tuple[str, int]:
        stored = api.patch(SETS, "default", "d", change, MERGE, "").document
        return number(stored), stored["metadata"]["generation"]

    assert after({"metadata": {"annotations": {ANNOTATION: "9"}}}) == ("1", 1)
    assert after({"metadata": {"annotations": None}}) == ("1", 1)
    assert after({"spec": {"minReadySeconds": 5}}) == ("1", 2)
    assert after({"spec": {"template": {"metadata": {"labels": {"more": "x"}}}}}) == ("2", 3)
    assert after({"spec": {"template": {"metadata": {"annotations": {}}}}}) == ("2", 3)
    assert after({"spec": {"template": {"spec": {"hostNetwork": False}}}}) == ("2", 3)


def test_pods_have_the_number_of_their_template(api: Api) -> None:
    created = api.create(SETS, "default", daemon_set(**{ANNOTATION: "4"})).document
    node = read({"metadata": {"name": "n"}}, Node)
    (write,) = (
        each
        for each in reconcile(read(created, DaemonSet), (), [node], NOW)
        if isinstance(each, Create) and each.kind == "Pod"
    )
    assert write.document["metadata"]["labels"]["pod-template-generation"] == "4"
