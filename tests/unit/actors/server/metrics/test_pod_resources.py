"""/metrics/resources: a line a pod and resource, as kube-scheduler prints them."""

from __future__ import annotations

from typing import Any

import msgspec

from berth.actors.scheduling.kube.core import Pod
from berth.actors.server.metrics.pod_resources import PART, PodResources
from tests.kit import structs

BROKEN_DOWN = (
    "broken down by pod. This shows the resource usage the scheduler and kubelet expect per pod"
    " for resources along with the unit for the resource if any."
)


def pod(name: str, *, phase: str = "Pending", namespace: str = "default", **spec: Any) -> Pod:
    fields = {"priority": 0, "containers": [], **spec}
    return structs.pod(name, namespace=namespace, status={"phase": phase}, **fields)


def container(limits: dict[str, str] | None = None, **requests: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits or {}}}


def text_of(*pods: Pod) -> str:
    return b"".join(PodResources(lambda: pods).parts()).decode()


def samples_of(*pods: Pod) -> list[str]:
    return [line for line in text_of(*pods).splitlines() if not line.startswith("#")]


def test_the_text_is_kube_schedulers() -> None:
    placed = pod(
        "p1",
        nodeName="hollow-0",
        containers=[container({"cpu": "200m"}, cpu="100m", memory="10Mi")],
    )
    big = pod("big", containers=[container(cpu="1000")])
    assert text_of(big, placed) == (
        "# HELP kube_pod_resource_limit [STABLE] Resources limit for workloads on the cluster, "
        f"{BROKEN_DOWN}\n"
        "# TYPE kube_pod_resource_limit gauge\n"
        'kube_pod_resource_limit{namespace="default",node="hollow-0",pod="p1",priority="0",'
        'resource="cpu",scheduler="default-scheduler",unit="cores"} 0.2\n'
        "# HELP kube_pod_resource_request [STABLE] Resources requested by workloads on the cluster,"
        f" {BROKEN_DOWN}\n"
        "# TYPE kube_pod_resource_request gauge\n"
        'kube_pod_resource_request{namespace="default",node="",pod="big",priority="0",'
        'resource="cpu",scheduler="default-scheduler",unit="cores"} 1000\n'
        'kube_pod_resource_request{namespace="default",node="hollow-0",pod="p1",priority="0",'
        'resource="cpu",scheduler="default-scheduler",unit="cores"} 0.1\n'
        'kube_pod_resource_request{namespace="default",node="hollow-0",pod="p1",priority="0",'
        'resource="memory",scheduler="default-scheduler",unit="bytes"} 1.048576e+07\n'
    )


def test_units_follow_the_resource() -> None:
    requests = {
        "cpu": "1",
        "memory": "1",
        "storage": "1",
        "ephemeral-storage": "1",
        "hugepages-2Mi": "1",
        "attachable-volumes-aws-ebs": "1",
        "nvidia.com/gpu": "1",
    }
    containers = [{"name": "c", "resources": {"requests": requests}}]
    lines = samples_of(pod("p", containers=containers))
    units = [(line.split('"')[9], line.split('"')[13]) for line in lines]
    assert units == [
        ("attachable-volumes-aws-ebs", "integer"),
        ("cpu", "cores"),
        ("ephemeral-storage", "bytes"),
        ("hugepages-2Mi", "bytes"),
        ("memory", "bytes"),
        ("nvidia.com/gpu", ""),
        ("storage", "bytes"),
    ]


def test_amounts_of_zero_are_left_out() -> None:
    assert text_of(pod("p", containers=[container({"cpu": "0"}, cpu="0")])) == ""


def test_a_finished_pod_counts_only_if_it_was_never_placed() -> None:
    ended = pod("ended", phase="Succeeded", nodeName="n", containers=[container(cpu="1")])
    failed = pod("failed", phase="Failed", nodeName="n", containers=[container(cpu="1")])
    rejected = pod("rejected", phase="Failed", containers=[container(cpu="1")])
    assert [line.split('"')[5] for line in samples_of(ended, failed, rejected)] == ["rejected"]


def test_a_pod_without_priority_has_an_empty_label() -> None:
    (line,) = samples_of(pod("p", priority=None, containers=[container(cpu="1")]))
    assert 'priority=""' in line


def test_pods_of_one_template_have_lines_of_their_own() -> None:
    first = pod("a", containers=[container(cpu="250m")])
    second = msgspec.structs.replace(
        first,
        metadata=msgspec.structs.replace(first.metadata, name="b"),
        spec=msgspec.structs.replace(first.spec, node_name="n"),
    )
    labels = [(line.split('"')[3], line.split('"')[5]) for line in samples_of(first, second)]
    assert labels == [("", "a"), ("n", "b")]


def test_the_text_of_many_pods_comes_in_parts_with_one_heading_a_family() -> None:
    first = pod("p", containers=[container({"cpu": "1"}, cpu="1")])
    parts = list(PodResources(lambda: [first] * (PART * 2 + 1)).parts())
    assert [part.count(b"\nkube") for part in parts] == [PART, PART - 1, 0, PART, PART - 1, 0]
    assert b"".join(parts).count(b"# HELP") == 2


def test_a_disabled_family_is_left_out() -> None:
    subject = pod("p", containers=[container({"cpu": "1"}, cpu="1")])
    (text,) = PodResources(lambda: [subject], ("kube_pod_resource_limit",)).parts()
    assert b"kube_pod_resource_request{" in text
    assert b"kube_pod_resource_limit" not in text
