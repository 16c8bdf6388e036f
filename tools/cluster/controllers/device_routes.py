"""Routes changes to the controllers of devices and their items, and collects their input."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from berth.actors.scheduling.kube.claims import controller_uid
from berth.actors.scheduling.kube.devices import ResourceClaim, ResourceSlice
from berth.actors.scheduling.kube.meta import HasMetadata, key

from ...kubernetes.devices import device_eviction
from ...kubernetes.devices.claim_release import ClaimRelease
from ...kubernetes.devices.claim_templates import ClaimTemplates
from ...kubernetes.devices.device_claims import claim_names, device_claims, pool_of
from ...kubernetes.object_index import ObjectIndex
from ...kubernetes.objects.properties import controller_of
from ...kubernetes.objects.structs import TYPES, Pod, ResourceClaimTemplate
from ...kubernetes.objects.writes import Write
from ...kubernetes.work_items import Item, item_of

FOLLOWED = ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
CONTROLLERS = ("claim-templates", "claim-release", "device-eviction")


def touched(cluster: ObjectIndex, obj: HasMetadata) -> Iterator[Item]:
    """Yields the items that a change of this object may affect."""
    match obj:
        case Pod():
            if device_claims(obj):
                yield item_of("claim-templates", obj)
                yield item_of("device-eviction", obj)
            for name in claim_names(obj):
                yield Item("claim-release", "ResourceClaim", obj.metadata.namespace, name)
        case ResourceClaim():
            yield item_of("claim-release", obj)
            owner = controller_of(obj)
            if owner is not None and owner.kind == "Pod":
                yield Item("claim-templates", "Pod", obj.metadata.namespace, owner.name)
            for pod in cluster.by(Pod, "device-claim", key(obj)):
                yield item_of("claim-templates", pod)
                yield item_of("device-eviction", pod)
        case ResourceSlice():
            for claim in cluster.by(ResourceClaim, "pool", pool_of(obj)):
                for pod in cluster.by(Pod, "device-claim", key(claim)):
                    yield item_of("device-eviction", pod)
        case ResourceClaimTemplate():
            for pod in cluster.by(Pod, "claim-template", key(obj)):
                yield item_of("claim-templates", pod)


class DeviceControllers:
    def __init__(self) -> None:
        self._templates = ClaimTemplates()
        self._release = ClaimRelease()

    def reconcile(self, cluster: ObjectIndex, item: Item, now: datetime) -> list[Write]:
        namespace = item.namespace

        def find_claim(name: str) -> ResourceClaim | None:
            return cluster.find(ResourceClaim, namespace, name)

        match item.controller, cluster.find(TYPES[item.kind], namespace, item.name):
            case "claim-templates", None:
                self._templates.forget(f"{namespace}/{item.name}")
                return []
            case "claim-release", None:
                self._release.forget(f"{namespace}/{item.name}")
                return []
            case "device-eviction", None:
                return []
            case "claim-templates", Pod() as pod:
                own = [
                    claim
                    for claim in cluster.dependents(pod.metadata.uid)
                    if isinstance(claim, ResourceClaim)
                    and controller_uid(claim) == pod.metadata.uid
                ]
                return self._templates.reconcile(
                    pod,
                    own,
                    find_claim,
                    lambda name: cluster.find(ResourceClaimTemplate, namespace, name),
                    now,
                )
            case "claim-release", ResourceClaim() as claim:
                return self._release.reconcile(
                    claim, lambda name: cluster.find(Pod, namespace, name), cluster.is_gone, now
                )
            case "device-eviction", Pod() as pod:
                return device_eviction.reconcile(
                    pod, find_claim, lambda pool: cluster.by(ResourceSlice, "pool", pool), now
                )
            case other:
                raise AssertionError(f"no controller {other}")
