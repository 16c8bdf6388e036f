"""A new version of a pod keeps its template only if the template's parts of the pod are
unchanged.
"""

from __future__ import annotations

from itertools import pairwise
from weakref import ref

import msgspec
import pytest

from berth.actors.scheduling.kube.core import ContainerStatus, Pod, PodSpec
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.actors.scheduling.model.pod_info import MAX_KEPT, LatestPodInfos, PodInfo, PodInfos
from berth.actors.scheduling.model.pod_template import Templates


def pod() -> Pod:
    metadata = ObjectMeta(
        namespace="ns", name="a", uid="a", labels={"app": "web"}, annotations={"note": "1"}
    )
    return Pod(
        metadata=metadata,
        spec=PodSpec(scheduler_name="default-scheduler", node_selector={"disk": "ssd"}),
    )


def test_the_echo_of_a_binding_keeps_the_template() -> None:
    infos = PodInfos()
    before = infos.of(pod())
    spec = msgspec.structs.replace(pod().spec, node_name="n1")
    after = infos.of(msgspec.structs.replace(pod(), spec=spec), before)
    assert after.template is before.template
    assert after.counts_like(before)


def test_a_large_template_is_kept_as_long_as_one_of_its_pods() -> None:
    annotations = {"note": "x" * 100_000}
    metadata = msgspec.structs.replace(pod().metadata, annotations=annotations)
    large = msgspec.structs.replace(pod(), metadata=metadata)
    templates, small = Templates(), pod()
    first = ref(templates.of(large))
    kept = templates.of(small)
    assert first() is None
    again = templates.of(large)
    assert templates.of(small) is kept
    assert templates.of(large) is again


@pytest.mark.parametrize("where", ["labels", "annotations", "spec", "status"])
def test_a_change_of_a_templates_part_makes_another_template(where: str) -> None:
    first = pod()
    metadata, spec, status = first.metadata, first.spec, first.status
    match where:
        case "spec":
            spec = msgspec.structs.replace(spec, priority=7)
        case "status":
            status = msgspec.structs.replace(
                status, container_statuses=(ContainerStatus(name="c"),)
            )
        case _:
            metadata = msgspec.structs.replace(metadata, **{where: {"app": "db"}})
    changed = Pod(metadata=metadata, spec=spec, status=status)
    infos = PodInfos()
    before = infos.of(first)
    after = infos.of(changed, before)
    assert after.template != before.template
    assert after.template is infos.of(changed).template
    assert before.template is infos.of(pod()).template
    assert before.template == PodInfo(pod()).template


def test_some_infos_are_kept_when_more_pods_are_asked_about_in_turn() -> None:
    infos = LatestPodInfos()
    pods = [pod() for _ in range(MAX_KEPT * 5 // 4)]
    rounds = [[infos.of(each) for each in pods] for _ in range(5)]
    for before, after in pairwise(rounds):
        kept = sum(old is new for old, new in zip(before, after, strict=True))
        assert kept > MAX_KEPT // 4
