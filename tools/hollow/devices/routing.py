"""Which controllers of devices must look at which items after a change, and what each reads."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ..cluster import Cluster
from ..device_claims import claim_names, device_claims, is_made_for, key_of, pool_key
from ..documents import Document, controller_of, namespace_of, spec_of, uid_of
from ..items import Item, item_of
from ..writes import Write
from . import eviction
from .release import ClaimRelease
from .templates import ClaimTemplates

FOLLOWED = ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
CONTROLLERS = ("claim-templates", "claim-release", "device-eviction")


def touched(cluster: Cluster, kind: str, document: Document) -> Iterator[Item]:
    """The items to look at after a change of an object of this kind."""
    match kind:
        case "Pod":
            if device_claims(document):
                yield item_of("claim-templates", document)
                yield item_of("device-eviction", document)
            for name in claim_names(document):
                yield Item("claim-release", "ResourceClaim", namespace_of(document), name)
        case "ResourceClaim":
            yield item_of("claim-release", document)
            owner = controller_of(document) or {}
            if owner.get("kind") == "Pod":
                name = owner.get("name") or ""
                yield Item("claim-templates", "Pod", namespace_of(document), name)
            for pod in cluster.by("Pod", "device-claim", key_of(document)):
                yield item_of("claim-templates", pod)
                yield item_of("device-eviction", pod)
        case "ResourceSlice":
            for claim in cluster.by("ResourceClaim", "pool", pool_key(spec_of(document))):
                for pod in cluster.by("Pod", "device-claim", key_of(claim)):
                    yield item_of("device-eviction", pod)
        case "ResourceClaimTemplate":
            for pod in cluster.by("Pod", "claim-template", key_of(document)):
                yield item_of("claim-templates", pod)


class DeviceControllers:
    def __init__(self) -> None:
        self._templates = ClaimTemplates()
        self._release = ClaimRelease()

    def reconcile(self, cluster: Cluster, item: Item, now: datetime) -> list[Write]:
        found = cluster.find(item.kind, item.namespace, item.name)
        key = f"{item.namespace}/{item.name}"

        def find(kind: str, name: str) -> Document | None:
            return cluster.find(kind, item.namespace, name)

        match item.controller:
            case "claim-templates":
                if found is None:
                    self._templates.forget(key)
                    return []
                own = [
                    one
                    for one in cluster.dependents(uid_of(found))
                    if one["kind"] == "ResourceClaim" and is_made_for(one, found)
                ]
                return self._templates.reconcile(
                    found,
                    own,
                    lambda name: find("ResourceClaim", name),
                    lambda name: find("ResourceClaimTemplate", name),
                    now,
                )
            case "claim-release":
                if found is None:
                    self._release.forget(key)
                    return []
                return self._release.reconcile(
                    found, lambda name: find("Pod", name), cluster.is_gone, now
                )
            case "device-eviction":
                return (
                    []
                    if found is None
                    else eviction.reconcile(
                        found,
                        lambda name: find("ResourceClaim", name),
                        lambda pool: cluster.by("ResourceSlice", "pool", pool),
                        now,
                    )
                )
            case other:
                raise AssertionError(f"no controller {other}")
