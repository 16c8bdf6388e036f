"""Extended resources that a device class provides, and the requests that replace them.

The scheduler makes one claim for all of them, with the requests that the chosen node needs: where a
device plugin provides a resource, no device is requested. Mirrors extendeddynamicresources.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from berth.plugin import DeviceClass, Pod, PodInfo, ResourceClaim

from ...kube.core import Container
from ...kube.devices import (
    DEVICE_CLASS_PREFIX,
    EXACT_COUNT,
    EXTENDED_RESOURCE_CLAIM,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaimSpec,
    may_be_devices,
)
from ...kube.meta import ObjectMeta, OwnerReference
from ...kube.quantity import MAX_INT64, nano_value
from ...kube.times import seconds_of
from ...model.cluster_objects import ClusterObjects

# The claim's name until it is written. No claim in the API server can have this name.
UNWRITTEN = "<extended-resources>"


class RequestMapping(msgspec.Struct, frozen=True):
    """The request of the claim that gives a container its resource."""

    container: str
    resource: str
    request: str


class ClassesByResource:
    """The device class of each extended resource, kept until a class changes."""

    def __init__(self) -> None:
        self._objects: ClusterObjects | None = None
        self._version = -1
        self._classes: dict[str, DeviceClass] = {}

    def refresh(self, objects: ClusterObjects) -> ClassesByResource:
        version = objects.version(DeviceClass)
        if self._objects is not objects or self._version != version:
            self._classes = classes_by_resource(objects.every(DeviceClass))
            self._objects, self._version = objects, version
        return self

    def get(self, resource: str) -> DeviceClass | None:
        return self._classes.get(resource)

    def __bool__(self) -> bool:
        return bool(self._classes)


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Returns the class of each resource.

    If several classes have the same resource, the newest is chosen, and among equally new ones the
    first by name.
    """
    by_resource: dict[str, DeviceClass] = {}
    for device_class in sorted(classes, key=_age_first):
        by_resource[f"{DEVICE_CLASS_PREFIX}{device_class.metadata.name}"] = device_class
        if device_class.spec.extended_resource_name is not None:
            by_resource[device_class.spec.extended_resource_name] = device_class
    return by_resource


def any_provides(resource: str, classes: Iterable[DeviceClass]) -> bool:
    """True if a class provides the resource."""
    return any(
        resource in (each.spec.extended_resource_name, f"{DEVICE_CLASS_PREFIX}{each.metadata.name}")
        for each in classes
    )


def _age_first(device_class: DeviceClass) -> tuple[float, tuple[int, ...]]:
    created = device_class.metadata.creation_timestamp
    try:
        seconds = float(seconds_of(created)) if created else 0.0
    except ValueError:
        seconds = 0.0
    # The class with the first name comes last.
    return seconds, (*(-ord(letter) for letter in device_class.metadata.name), 1)


def resources_of(info: PodInfo, classes: ClassesByResource) -> dict[str, int] | None:
    """Returns the pod's requests for extended resources; None if no class provides one of them."""
    requested = {
        name: amount
        for name, amount in info.template.spec_requests.items()
        if amount and may_be_devices(name)
    }
    return requested if any(classes.get(name) is not None for name in requested) else None


def unwritten_claim(pod: Pod) -> ResourceClaim:
    """Returns the claim for a pod's extended resources, without requests."""
    metadata = pod.metadata
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=metadata.name, uid=metadata.uid, controller=True
    )
    return ResourceClaim(
        metadata=ObjectMeta(
            name=UNWRITTEN,
            namespace=metadata.namespace,
            uid=f"{metadata.uid}{UNWRITTEN}",
            generate_name=f"{metadata.name}-extended-resources-",
            owner_references=(owner,),
            annotations={EXTENDED_RESOURCE_CLAIM: "true"},
        )
    )


def with_requests(claim: ResourceClaim, requests: Sequence[DeviceRequest]) -> ResourceClaim:
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=tuple(requests)))
    return msgspec.structs.replace(claim, spec=spec)


def requests_for(
    pod: Pod, resources: Iterable[str], classes: ClassesByResource
) -> tuple[list[DeviceRequest], list[RequestMapping]]:
    """Returns the requests for devices that replace these resources, and the mappings of the
    containers.

    Containers that run one after another share their devices: an init container that ends uses the
    devices of later containers, and has its own request only for the devices that these lack.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    requests: list[DeviceRequest] = []
    mappings: list[RequestMapping] = []
    for resource in sorted(resources):
        device_class = classes.get(resource)
        if device_class is None:
            continue
        name = device_class.metadata.name
        running: list[DeviceRequest | None] = [None] * len(containers)
        of_running: list[RequestMapping] = []
        for i, container in enumerate(containers):
            if i >= len(pod.spec.init_containers) or container.restart_policy == "Always":
                running[i], of_container = _request(i, container, resource, name, ())
                of_running += of_container
        largest: DeviceRequest | None = None
        of_ending: list[RequestMapping] = []
        for i, container in enumerate(pod.spec.init_containers):
            if container.restart_policy == "Always":
                continue
            request, of_container = _request(i, container, resource, name, running[i:])
            of_ending += of_container
            if request is not None and (largest is None or _count(largest) < _count(request)):
                largest = request
        if largest is not None:
            reused = {request.name for request in running if request is not None}
            of_ending = [
                mapping
                if mapping.request in reused
                else msgspec.structs.replace(mapping, request=largest.name)
                for mapping in of_ending
            ]
            requests.append(largest)
        requests += [request for request in running if request is not None]
        mappings += [*of_running, *of_ending]
    requests.sort(key=lambda request: request.name)
    return requests, mappings


def _count(request: DeviceRequest) -> int:
    return 0 if request.exactly is None else request.exactly.count


def _request(
    index: int,
    container: Container,
    resource: str,
    device_class: str,
    reusable: Sequence[DeviceRequest | None],
) -> tuple[DeviceRequest | None, list[RequestMapping]]:
    """Returns the request of a container beyond the requests of others that it can reuse."""
    amounts = container.resources.requests
    if resource not in amounts:
        return None, []
    nano = nano_value(amounts[resource])
    count = nano // 10**9
    if nano % 10**9 or not 0 < count <= MAX_INT64:
        return None, []
    mappings = []
    for other in reusable:
        if other is not None:
            count -= _count(other)
            mappings.append(RequestMapping(container.name, resource, other.name))
            if count <= 0:
                return None, mappings
    name = f"container-{index}-request-{sorted(amounts).index(resource)}"
    exactly = ExactDeviceRequest(
        device_class_name=device_class, allocation_mode=EXACT_COUNT, count=count
    )
    mappings.append(RequestMapping(container.name, resource, name))
    return DeviceRequest(name=name, exactly=exactly), mappings
