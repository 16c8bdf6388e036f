"""What a pod asks of devices for its extended resources, and what each container gets."""

from __future__ import annotations

from typing import Any

import msgspec

from berth.actors.scheduling.kube.devices import DEVICE_CLASS_PREFIX
from berth.actors.scheduling.model.cluster_objects import ClusterObjects
from berth.actors.scheduling.plugins.dynamic_resources.extended import (
    ClassesByResource,
    any_provides,
    classes_by_resource,
    requests_for,
    resources_of,
)
from berth.plugin import DeviceClass, Pod, PodInfo
from tests.kit.devices import GPU, device_class
from tests.kit.documents import Document

IMPLICIT = f"{DEVICE_CLASS_PREFIX}gpus"


def classes(*documents: Document) -> ClassesByResource:
    objects = ClusterObjects()
    objects.kind_listed(DeviceClass, "")
    for document in documents:
        objects.put(msgspec.convert(document, DeviceClass))
    return ClassesByResource().refresh(objects)


def gpus(name: str = "gpus", created: str | None = None, resource: str | None = GPU) -> Document:
    document = device_class(name, extendedResourceName=resource)
    document["metadata"]["creationTimestamp"] = created
    return document


def container(name: str, count: int | str, sidecar: bool = False, of: str = GPU) -> Document:
    always = {"restartPolicy": "Always"} if sidecar else {}
    requests = {"cpu": "1", of: str(count)} if count else {"cpu": "1"}
    return {"name": name, "resources": {"requests": requests}, **always}


def needed(*running: Document, init: list[Document] | None = None) -> tuple[list[Any], list[Any]]:
    """Returns the requests with their counts, and the mappings as "container request"."""
    document = {"spec": {"containers": [*running], "initContainers": init or []}}
    pod = msgspec.convert(document, Pod)
    requests, mappings = requests_for(pod, [GPU], classes(gpus()))
    counts = []
    for request in requests:
        assert request.exactly is not None
        assert request.exactly.device_class_name == "gpus"
        counts.append((request.name, request.exactly.count))
    return counts, [f"{mapping.container} {mapping.request}" for mapping in mappings]


def test_every_running_container_has_a_request() -> None:
    assert needed(container("a", 1), container("b", 0), container("c", 2)) == (
        [("container-0-request-1", 1), ("container-2-request-1", 2)],
        ["a container-0-request-1", "c container-2-request-1"],
    )
    assert needed(container("a", "1500m")) == ([], [])


def test_init_containers_use_the_devices_of_later_ones() -> None:
    enough = needed(container("a", 2), init=[container("i", 2)])
    assert enough == (
        [("container-1-request-1", 2)],
        ["a container-1-request-1", "i container-1-request-1"],
    )
    more = needed(container("a", 2), init=[container("i", 3)])
    assert more == (
        [("container-0-request-1", 1), ("container-1-request-1", 2)],
        ["a container-1-request-1", "i container-1-request-1", "i container-0-request-1"],
    )


def test_init_containers_share_the_largest_request() -> None:
    shared = needed(container("a", 1), init=[container("i", 2), container("j", 4)])
    assert shared == (
        [("container-1-request-1", 3), ("container-2-request-1", 1)],
        [
            "a container-2-request-1",
            *("i container-2-request-1", "i container-1-request-1"),
            *("j container-2-request-1", "j container-1-request-1"),
        ],
    )


def test_sidecars_run_from_their_place_on() -> None:
    init = [container("i", 1), container("s", 1, sidecar=True), container("j", 1)]
    assert needed(init=init) == (
        # The last one runs beside the sidecar, and has a request of its own.
        [("container-1-request-1", 1), ("container-2-request-1", 1)],
        ["s container-1-request-1", "i container-1-request-1", "j container-2-request-1"],
    )


def test_several_resources_and_classes() -> None:
    other = "example.com/nic"
    with_both = container("a", 1)
    with_both["resources"]["requests"][other] = "2"
    pod = msgspec.convert({"spec": {"containers": [with_both]}}, Pod)
    by_resource = classes(gpus(), gpus("nics", resource=other))
    requests, mappings = requests_for(pod, [other, GPU, "example.com/none"], by_resource)
    named = [(it.name, it.exactly and it.exactly.device_class_name) for it in requests]
    assert named == [("container-0-request-1", "gpus"), ("container-0-request-2", "nics")]
    assert [it.resource for it in mappings] == [GPU, other]


def test_the_class_of_a_resource() -> None:
    old, new = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"

    def chosen(*documents: Document) -> str:
        by_resource = classes_by_resource(msgspec.convert([*documents], list[DeviceClass]))
        return by_resource[GPU].metadata.name

    assert chosen(gpus("b", old), gpus("a", new), gpus("c", old)) == "a"
    assert chosen(gpus("b", old), gpus("a", old)) == "a"
    assert chosen(gpus("b", old), gpus("a", None)) == "b"
    every = msgspec.convert([gpus(resource=None)], list[DeviceClass])
    assert [*classes_by_resource(every)] == [IMPLICIT]
    assert any_provides(IMPLICIT, every)
    assert not any_provides(GPU, every)


def test_resources_of_a_pod() -> None:
    def of(*containers: Document) -> dict[str, int] | None:
        spec = {"containers": [*containers]}
        pod = msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod)
        return resources_of(PodInfo(pod), classes(gpus()))

    assert of(container("a", 1), container("b", 2)) == {GPU: 3}
    assert of(container("a", 1, of=IMPLICIT)) == {IMPLICIT: 1}
    # All are returned if a class provides one of them.
    both = of(container("a", 1), container("b", 1, of="example.com/x"))
    assert both == {GPU: 1, "example.com/x": 1}
    assert of(container("a", 1, of="example.com/x")) is None
    assert of(container("a", 0)) is None
    assert of(container("a", "0")) is None
