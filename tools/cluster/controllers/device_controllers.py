"""The controllers of devices: what they watch, and their input."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from berth.actors.scheduling.kube.claims import controller_uid
from berth.actors.scheduling.kube.devices import ResourceClaim, ResourceSlice
from berth.actors.scheduling.kube.meta import key

from ...kubernetes.devices import device_eviction
from ...kubernetes.devices.claim_release import ClaimRelease
from ...kubernetes.devices.claim_templates import ClaimTemplates
from ...kubernetes.devices.device_claims import claim_names, device_claims, pool_of
from ...kubernetes.object_index import ObjectIndex
from ...kubernetes.objects.properties import controller_of
from ...kubernetes.objects.structs import Pod, ResourceClaimTemplate
from ...kubernetes.objects.writes import Write
from .controller import Affected, Controller, controller, each


def device_controllers() -> tuple[Controller, ...]:
    templates, release = ClaimTemplates(), ClaimRelease()

    def make_claims(cluster: ObjectIndex, pod: Pod, now: datetime) -> list[Write]:
        namespace, uid = pod.metadata.namespace, pod.metadata.uid
        own = [
            claim
            for claim in cluster.dependents(uid)
            if isinstance(claim, ResourceClaim) and controller_uid(claim) == uid
        ]
        return templates.reconcile(
            pod,
            own,
            lambda name: cluster.find(ResourceClaim, namespace, name),
            lambda name: cluster.find(ResourceClaimTemplate, namespace, name),
            now,
        )

    def free_claim(cluster: ObjectIndex, claim: ResourceClaim, now: datetime) -> list[Write]:
        namespace = claim.metadata.namespace
        return release.reconcile(
            claim, lambda name: cluster.find(Pod, namespace, name), cluster.is_gone, now
        )

    return (
        controller(
            "claim-templates",
            Pod,
            {
                Pod: each(_with_devices),
                ResourceClaim: each(_users_and_owner),
                ResourceClaimTemplate: each(
                    lambda cluster, template: cluster.by(Pod, "claim-template", key(template))
                ),
            },
            make_claims,
            lambda item: templates.forget(item.key),
        ),
        controller(
            "claim-release",
            ResourceClaim,
            {Pod: each(lambda _, pod: ((pod.metadata.namespace, c) for c in claim_names(pod)))},
            free_claim,
            lambda item: release.forget(item.key),
        ),
        controller(
            "device-eviction",
            Pod,
            {
                Pod: each(_with_devices),
                ResourceClaim: each(_users),
                ResourceSlice: each(_users_of_pool),
            },
            _evict,
        ),
    )


def _with_devices(_cluster: ObjectIndex, pod: Pod) -> Iterator[Affected]:
    if device_claims(pod):
        yield pod


def _users(cluster: ObjectIndex, claim: ResourceClaim) -> list[Pod]:
    return cluster.by(Pod, "device-claim", key(claim))


def _users_and_owner(cluster: ObjectIndex, claim: ResourceClaim) -> Iterator[Affected]:
    owner = controller_of(claim)
    if owner is not None and owner.kind == "Pod":
        yield claim.metadata.namespace, owner.name
    yield from _users(cluster, claim)


def _users_of_pool(cluster: ObjectIndex, slice_: ResourceSlice) -> Iterator[Affected]:
    for claim in cluster.by(ResourceClaim, "pool", pool_of(slice_)):
        yield from _users(cluster, claim)


def _evict(cluster: ObjectIndex, pod: Pod, now: datetime) -> list[Write]:
    return device_eviction.reconcile(
        pod,
        lambda name: cluster.find(ResourceClaim, pod.metadata.namespace, name),
        lambda pool: cluster.by(ResourceSlice, "pool", pool),
        now,
    )
