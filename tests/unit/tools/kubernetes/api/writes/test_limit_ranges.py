"""LimitRanges in a namespace: what new pods and claims get from them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.limit_ranges import LIMIT_RANGES
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.cases import documents
from tests.kit.documents import Document

PODS, CLAIMS = BY_KIND["v1", "Pod"], BY_KIND["v1", "PersistentVolumeClaim"]
NS = "default"


def limit(api: Api, *limits: Document, name: str = "limits", namespace: str = NS) -> Document:
    document = {"metadata": {"name": name}, "spec": {"limits": list(limits)}}
    return api.create(LIMIT_RANGES, namespace, document).document


def container(name: str = "c", **resources: Any) -> Document:
    return {"name": name, "image": "i", "resources": resources}


def create(api: Api, *containers: Document, **spec: Any) -> Document:
    document = {
        "metadata": {"generateName": "p-"},
        "spec": {"containers": list(containers or [container()]), **spec},
    }
    return api.create(PODS, NS, document).document


def refusal(api: Api, *containers: Document, **spec: Any) -> str:
    with pytest.raises(RefusedError) as refused:
        create(api, *containers, **spec)
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
    return str(refused.value).partition(" is forbidden: ")[2]


def resources(pod: Document, place: int = 0, field: str = "containers") -> Document:
    amounts: Document = pod["spec"][field][place]["resources"]
    return amounts


def test_containers_get_the_defaults_that_they_lack(api: Api) -> None:
    limit(
        api,
        {"type": "Container", "default": {"cpu": "2", "memory": "1Gi"}},
        {"type": "example.com/Container", "default": {"cpu": "9"}},
    )
    limit(api, {"type": "Container", "defaultRequest": {"cpu": "1"}}, name="more")
    limit(api, {"type": "Container", "default": {"cpu": "7"}}, name="z", namespace="kube-system")
    pod = create(
        api,
        container("own", requests={"cpu": "500m"}, limits={"memory": "2Gi"}),
        container("none"),
        initContainers=[container("init")],
    )
    assert resources(pod) == {
        "requests": {"cpu": "500m", "memory": "2Gi"},
        "limits": {"cpu": "2", "memory": "2Gi"},
    }
    assert resources(pod, 1) == {
        "requests": {"cpu": "2", "memory": "1Gi"},
        "limits": {"cpu": "2", "memory": "1Gi"},
    }
    assert resources(pod, 0, "initContainers") == resources(pod, 1)
    assert pod["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu limit for container own; "
        "cpu, memory request for container none; cpu, memory limit for container none; "
        "cpu, memory request for init container init; cpu, memory limit for init container init"
    }
    assert pod["status"]["qosClass"] == "Burstable"


def test_without_a_default_a_pod_stays_as_it_is(api: Api) -> None:
    limit(api, {"type": "Pod", "max": {"cpu": "5"}}, namespace="kube-system")
    pod = create(api)
    assert resources(pod) == {}
    assert "annotations" not in pod["metadata"]


@pytest.mark.parametrize(
    ("bound", "own", "problem"),
    documents("""
min: {cpu: 100m} => requests: {cpu: 50m} =>
    minimum cpu usage per Container is 100m, but request is 50m
max: {memory: 1Gi} => limits: {memory: 1025Mi} =>
    maximum memory usage per Container is 1Gi, but limit is 1025Mi
maxLimitRequestRatio: {cpu: 2} => {limits: {cpu: 1}, requests: {cpu: 400m}} => cpu max limit to
    request ratio per Container is 2, but provided ratio is 2.500000
maxLimitRequestRatio: {cpu: 2} => {limits: {cpu: 1}, requests: {cpu: 0}} => cpu max limit to request
    ratio per Container is 2, but no request is specified or request is 0
maxLimitRequestRatio: {cpu: 2} => requests: {cpu: 1} => cpu max limit to request ratio per
    Container is 2, but no limit is specified or limit is 0
"""),
)
def test_a_container_out_of_bounds_is_refused(
    api: Api, bound: Document, own: Document, problem: str
) -> None:
    limit(api, {"type": "Container", **bound})
    assert refusal(api, container(**own)) == problem
    assert problem in refusal(api, container("free"), initContainers=[container(**own)])


@pytest.mark.parametrize(
    ("bound", "own"),
    [
        ({"min": {"cpu": "100m"}}, {"requests": {"cpu": "0.1"}}),
        ({"max": {"memory": "1Gi"}}, {"limits": {"memory": "1024Mi"}}),
        (
            {"maxLimitRequestRatio": {"cpu": "2.5"}},
            {"limits": {"cpu": "1"}, "requests": {"cpu": "400m"}},
        ),
    ],
)
def test_the_bounds_themselves_are_allowed(api: Api, bound: Document, own: Document) -> None:
    limit(api, {"type": "Container", **bound})
    create(api, container(**own))


@pytest.mark.parametrize(
    ("bound", "spec", "problem"),
    documents("""
max: {memory: 1Gi} => {containers: [600Mi, 600Mi]} => limit is 1200Mi
max: {memory: 1Gi} => {containers: [600Mi], init: [2Gi]} => limit is 2Gi
max: {memory: 1Gi} => {containers: [600Mi], sidecars: [500Mi]} => limit is 1100Mi
max: {memory: 1Gi} => {containers: [100Mi], sidecars: [500Mi], init: [600Mi]} => limit is 1100Mi
max: {memory: 1G} => {containers: [600M, 600M]} => limit is 1200M
max: {memory: 1Gi} => {containers: [1Mi], pod: 2Gi} => limit is 2Gi
max: {cpu: 1} => {containers: [1Mi]} => No limit is specified
min: {memory: 1Gi} => {containers: [1Mi]} => request is 1Mi
"""),
)
def test_the_sum_of_a_pod_out_of_bounds_is_refused(
    api: Api, bound: Document, spec: Document, problem: str
) -> None:
    limit(api, {"type": "Pod", **bound})

    def containers(field: str, **more: str) -> list[Document]:
        amounts = enumerate(spec.get(field) or ())
        return [
            {**container(f"{field}-{i}", limits={"memory": amount}), **more}
            for i, amount in amounts
        ]

    own = {"resources": {"limits": {"memory": spec["pod"]}}} if "pod" in spec else {}
    started = [*containers("sidecars", restartPolicy="Always"), *containers("init")]
    assert refusal(api, *containers("containers"), initContainers=started, **own).endswith(problem)


def test_sums_within_the_bounds_are_allowed(api: Api) -> None:
    limit(api, {"type": "Pod", "max": {"memory": "1Gi"}, "min": {"memory": "1Gi"}})
    half = container("a", limits={"memory": "512Mi"}), container("b", limits={"memory": "512Mi"})
    create(api, *half, initContainers=[container("c", limits={"memory": "1Gi"})])


def claim(storage: str) -> Document:
    return {
        "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}},
    }


def test_a_claim_is_as_large_as_its_bounds_say_also_after_an_update(api: Api) -> None:
    kind = "PersistentVolumeClaim"
    limit(api, {"type": kind, "min": {"storage": "1Gi"}, "max": {"storage": "2G"}})
    for storage, problem in (
        ("1Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"),
        ("2Gi", "maximum storage usage per PersistentVolumeClaim is 2G, but request is 2Gi"),
    ):
        with pytest.raises(RefusedError) as refused:
            api.create(CLAIMS, NS, claim(storage))
        assert str(refused.value) == f'persistentvolumeclaims "c" is forbidden: {problem}'
    small = api.create(CLAIMS, NS, claim("1Gi")).document
    limit(api, {"type": "PersistentVolumeClaim", "min": {"storage": "1500M"}}, name="later")
    with pytest.raises(RefusedError, match="minimum storage usage"):
        api.update(CLAIMS, NS, "c", {**small, "metadata": {"name": "c", "labels": {"a": "b"}}}, "")


def test_a_running_pod_may_be_updated_but_not_resized_beyond_later_bounds(api: Api) -> None:
    pod = create(api, container(limits={"cpu": "2"}))
    name = pod["metadata"]["name"]
    limit(api, {"type": "Container", "max": {"cpu": "1"}})
    labelled = {**pod, "metadata": {**pod["metadata"], "labels": {"a": "b"}, "resourceVersion": ""}}
    api.update(PODS, NS, name, labelled, "")
    with pytest.raises(RefusedError, match="maximum cpu usage per Container is 1"):
        api.update(PODS, NS, name, labelled, "resize")
