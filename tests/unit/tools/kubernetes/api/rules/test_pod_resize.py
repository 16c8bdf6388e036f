"""Resizes of pods: what may change, and what is left as it was."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.requests.media_types import STRATEGIC
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document

MIRROR = "kubernetes.io/config.mirror"
PODS, QUOTAS = BY_KIND["v1", "Pod"], BY_KIND["v1", "ResourceQuota"]
LIMITS = BY_KIND["v1", "LimitRange"]


def container(name: str = "c", cpu: str = "1", memory: str = "1Gi", **fields: Any) -> Document:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    return {"name": name, "image": "i", "resources": resources, **fields}


def create(api: Api, annotations: dict[str, str] | None = None, **spec: Any) -> Document:
    spec = {"containers": [container()], **spec}
    metadata = {"name": "p", "annotations": annotations or {}}
    return api.create(PODS, "default", {"metadata": metadata, "spec": spec}).document


def resize(api: Api, **spec: Any) -> Document:
    return api.patch(PODS, "default", "p", {"spec": spec}, STRATEGIC, "resize").document


def refused(api: Api, **spec: Any) -> str:
    with pytest.raises(RefusedError) as refusal:
        resize(api, **spec)
    return str(refusal.value).removeprefix('Pod "p" is invalid: ')


def to(name: str = "c", **resources: Any) -> Document:
    return {"name": name, "resources": resources}


def test_cpu_and_memory_change_and_the_generation_increases(api: Api) -> None:
    before = create(api, containers=[container(), container("d")])
    after = resize(api, containers=[to("d", requests={"cpu": "2"}, limits={"memory": "2Gi"})])
    first, second = after["spec"]["containers"]
    assert first == before["spec"]["containers"][0]
    assert second["resources"] == {
        "requests": {"cpu": "2", "memory": "1Gi"},
        "limits": {"memory": "2Gi"},
    }
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1


def test_everything_else_in_a_resize_is_ignored(api: Api) -> None:
    before = create(api)
    change = {**to(requests={"cpu": "2"}), "image": "other"}
    document = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"containers": [change], "tolerations": [{"operator": "Exists"}]},
    }
    after = api.patch(PODS, "default", "p", document, STRATEGIC, "resize").document
    assert after["spec"]["containers"][0]["image"] == "i"
    assert after["spec"]["tolerations"] == before["spec"]["tolerations"]
    assert "labels" not in after["metadata"]
    assert after["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2"


@pytest.mark.parametrize(
    ("resources", "problem"),
    [
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}},
            """spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of \
resizing""",
        ),
        (
            {"requests": {"memory": None}},
            "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
        ),
        (
            {"requests": {"ephemeral-storage": "1Gi"}},
            "spec: Forbidden: only cpu and memory resources are mutable",
        ),
        (
            {"limits": {"cpu": "500m"}},
            """spec.containers[0].resources.requests: Invalid value: "1": must be less than or \
equal to cpu limit of 500m""",
        ),
    ],
)
def test_a_resize_that_is_not_allowed_names_the_field(
    api: Api, resources: Document, problem: str
) -> None:
    create(api)
    assert refused(api, containers=[to(**resources)]) == problem


def test_containers_stay_the_same(api: Api) -> None:
    create(api, containers=[container(), container("d")])
    assert refused(api, containers=[container("e")]) == (
        "spec.containers: Forbidden: containers may not be added or removed on resize"
    )
    kept = {"$patch": "delete", "name": "d"}
    why = "name: Forbidden: containers may not be renamed or reordered on resize"
    assert refused(api, containers=[kept, container("e")]) == (
        f"[spec.containers[0].{why}, spec.containers[1].{why}]"
    )


def test_the_resize_policy_cannot_be_changed(api: Api) -> None:
    create(api)
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    change = {**to(requests={"cpu": "2"}), "resizePolicy": policy}
    assert refused(api, containers=[change]) == (
        "spec: Forbidden: only cpu and memory resources are mutable"
    )


def test_static_pods_are_not_resized(api: Api) -> None:
    create(api, {MIRROR: "hash"}, nodeName="n")
    problem = refused(api, containers=[to(requests={"cpu": "2"})])
    assert problem == "[]: Forbidden: static pods cannot be resized"


def test_the_node_of_a_running_pod_must_report_resources(api: Api) -> None:
    before = create(api)
    running = {"name": "c", "state": {"running": {}}}
    status = {**before["status"], "containerStatuses": [running]}
    api.update(PODS, "default", "p", {**before, "status": status}, "status")
    problem = "spec: Forbidden: Pod running on node without support for resize"
    assert refused(api, containers=[to(requests={"cpu": "2"})]) == problem


def test_init_containers_are_resized_unless_that_restarts_them(api: Api) -> None:
    policy = [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]
    create(api, initContainers=[container("i", resizePolicy=policy)])
    after = resize(api, initContainers=[to("i", requests={"cpu": "2"})])
    assert after["spec"]["initContainers"][0]["resources"]["requests"]["cpu"] == "2"


def test_the_resources_of_the_pod_itself_are_resized_but_not_removed(api: Api) -> None:
    create(api, resources={"requests": {"cpu": "2"}})
    after = resize(api, resources={"requests": {"cpu": "3", "memory": "4Gi"}})
    assert after["spec"]["resources"]["requests"] == {"cpu": "3", "memory": "4Gi"}
    assert refused(api, resources=None) == (
        "spec.resources: Forbidden: pod-level resources cannot be removed"
    )
    resize(api, resources={"requests": {"cpu": "3"}, "limits": {"cpu": "4"}})
    assert refused(api, resources={"limits": None}) == (
        "spec.resources.limits: Forbidden: pod-level resource limits cannot be removed"
    )


def test_quotas_and_limit_ranges_hold_for_resizes(api: Api) -> None:
    create(api)
    limit = {"type": "Container", "max": {"memory": "2Gi"}}
    limits = {"metadata": {"name": "l"}, "spec": {"limits": [limit]}}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "2"}}}
    api.create(QUOTAS, "default", quota)
    assert "exceeded quota: q" in refused(api, containers=[to(requests={"cpu": "3"})])
    api.create(LIMITS, "default", limits)
    bigger = to(limits={"memory": "3Gi"})
    assert "maximum memory usage per Container is 2Gi" in refused(api, containers=[bigger])


@pytest.mark.parametrize(
    ("before", "after", "verb"),
    [
        ({}, {MIRROR: "a"}, "add"),
        ({MIRROR: "a"}, {MIRROR: "b"}, "remove or update"),
        ({MIRROR: "a"}, {MIRROR: None}, "remove or update"),
    ],
)
def test_the_annotation_of_mirror_pods_stays(
    api: Api, before: Document, after: Document, verb: str
) -> None:
    create(api, before, nodeName="n")
    with pytest.raises(RefusedError) as refusal:
        api.patch(PODS, "default", "p", {"metadata": {"annotations": after}}, STRATEGIC, "")
    assert str(refusal.value) == (
        f'Pod "p" is invalid: metadata.annotations[{MIRROR}]: Forbidden: '
        f"may not {verb} mirror pod annotation"
    )


def test_a_mirror_pod_has_a_node(api: Api) -> None:
    with pytest.raises(RefusedError, match=r"must set spec\.nodeName if mirror pod annotation"):
        create(api, {MIRROR: "a"})
