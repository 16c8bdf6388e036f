"""The controllers of devices: what they watch, and their input."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial

from berth.actors.scheduling.kube.claims import controller_uid
from berth.actors.scheduling.kube.devices import ResourceClaim, ResourceSlice
from berth.actors.scheduling.kube.meta import key

from ...kubernetes.devices import device_eviction
from ...kubernetes.devices.claim_release import ClaimRelease
from ...kubernetes.devices.claim_templates import ClaimTemplates
from ...kubernetes.devices.device_claims import claim_names, device_claims, pool_of, results_of
from ...kubernetes.devices.device_eviction import DeviceEviction, FindClaim, Slices
from ...kubernetes.devices.taint_rule_status import Selected, TaintRuleStatus
from ...kubernetes.object_index import ObjectIndex
from ...kubernetes.objects.properties import controller_of, is_active
from ...kubernetes.objects.structs import DeviceTaintRule, Pod, ResourceClaimTemplate
from ...kubernetes.objects.writes import Write
from .controller import (
    Affected,
    Controller,
    controller,
    if_changed,
    itself,
    objects_before_and_after,
)


def device_controllers() -> tuple[Controller, ...]:
    templates, release = ClaimTemplates(), ClaimRelease()
    eviction, statuses = DeviceEviction(), TaintRuleStatus()

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

    def evict(cluster: ObjectIndex, pod: Pod, now: datetime) -> list[Write]:
        return eviction.reconcile(
            pod, *_devices_of(cluster, pod), cluster.all(DeviceTaintRule), now
        )

    def tell(cluster: ObjectIndex, rule: DeviceTaintRule, now: datetime) -> list[Write]:
        return statuses.reconcile(
            rule,
            partial(_pending, cluster, now),
            partial(_selected, cluster),
            eviction.evicted_by(rule),
            now,
        )

    return (
        controller(
            "claim-templates",
            Pod,
            {
                Pod: objects_before_and_after(_with_devices),
                ResourceClaim: objects_before_and_after(_users_and_owner),
                ResourceClaimTemplate: objects_before_and_after(
                    lambda cluster, template: cluster.by(Pod, "claim-template", key(template))
                ),
            },
            make_claims,
            lambda item: templates.forget(item.key),
        ),
        controller(
            "claim-release",
            ResourceClaim,
            {
                Pod: objects_before_and_after(
                    lambda _, pod: ((pod.metadata.namespace, c) for c in claim_names(pod))
                )
            },
            free_claim,
            lambda item: release.forget(item.key),
        ),
        controller(
            "device-taint-rules",
            DeviceTaintRule,
            {
                DeviceTaintRule: if_changed(_specs_differ, itself),
                Pod: if_changed(_life_changes, _rules_of_pod),
                ResourceClaim: objects_before_and_after(_rules_of_claim),
            },
            tell,
            lambda item: eviction.forget_rule(statuses.forget(item.name)),
        ),
        controller(
            "device-eviction",
            Pod,
            {
                Pod: objects_before_and_after(_with_devices),
                ResourceClaim: objects_before_and_after(_users),
                ResourceSlice: objects_before_and_after(_users_of_pool),
                DeviceTaintRule: _users_of_rule,
            },
            evict,
            lambda item: eviction.forget(item.key),
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


def _devices_of(cluster: ObjectIndex, pod: Pod) -> tuple[FindClaim, Slices]:
    """Returns functions that look up the claims of a pod, and the slices of a pool."""
    return (
        lambda name: cluster.find(ResourceClaim, pod.metadata.namespace, name),
        lambda pool: cluster.by(ResourceSlice, "pool", pool),
    )


# ------------------------------------------------------------------------------ the rules of taints


def _specs_differ(before: DeviceTaintRule | None, after: DeviceTaintRule | None) -> bool:
    if before is None or after is None:
        return True
    return before.spec != after.spec or before.metadata.generation != after.metadata.generation


def _life_changes(before: Pod | None, after: Pod | None) -> bool:
    """True if a pod was created or deleted, bound, or became or ceased to be subject to
    eviction.
    """
    if before is None or after is None:
        return True
    placed = before.spec.node_name != after.spec.node_name
    return placed or is_active(before) != is_active(after)


def _selects(rule: DeviceTaintRule, claim: ResourceClaim) -> bool:
    return any(device_eviction.selects(rule, result) for result in results_of(claim))


def _rules_of_claim(cluster: ObjectIndex, claim: ResourceClaim) -> Iterator[Affected]:
    return (rule for rule in cluster.all(DeviceTaintRule) if _selects(rule, claim))


def _rules_of_pod(cluster: ObjectIndex, pod: Pod) -> Iterator[Affected]:
    for name in claim_names(pod):
        claim = cluster.find(ResourceClaim, pod.metadata.namespace, name)
        if claim is not None:
            yield from _rules_of_claim(cluster, claim)


def _selected_claims(cluster: ObjectIndex, rule: DeviceTaintRule) -> Iterator[ResourceClaim]:
    return (claim for claim in cluster.all(ResourceClaim) if _selects(rule, claim))


def _users_of_rule(
    cluster: ObjectIndex, before: DeviceTaintRule | None, after: DeviceTaintRule | None
) -> Iterator[Affected]:
    if before is None or after is None or before.spec != after.spec:
        for rule in filter(None, (before, after)):
            for claim in _selected_claims(cluster, rule):
                yield from _users(cluster, claim)


def _pending(cluster: ObjectIndex, now: datetime, rule: DeviceTaintRule) -> list[Pod]:
    """Returns the pods that a rule is to evict, now or later."""
    users = {
        pod.metadata.uid: pod
        for claim in _selected_claims(cluster, rule)
        for pod in _users(cluster, claim)
    }
    return [
        pod
        for pod in users.values()
        if any(
            taint.rule is rule
            for taint in device_eviction.evicting_taints(
                pod, *_devices_of(cluster, pod), [rule], now
            )
        )
    ]


def _selected(cluster: ObjectIndex, rule: DeviceTaintRule) -> Selected:
    pools: dict[str, list[ResourceSlice]] = {}
    for slice_ in cluster.all(ResourceSlice):
        pools.setdefault(pool_of(slice_), []).append(slice_)
    latest = {pool: max(map(_generation, slices)) for pool, slices in pools.items()}
    published = sum(
        device_eviction.selects_device(rule, slice_.spec.driver, slice_.spec.pool.name, device.name)
        for pool, slices in pools.items()
        for slice_ in slices
        if _generation(slice_) == latest[pool]
        for device in slice_.spec.devices
    )
    allocated = sum(
        device_eviction.selects(rule, result)
        for claim in cluster.all(ResourceClaim)
        for result in results_of(claim)
    )
    return Selected(published, allocated)


def _generation(slice_: ResourceSlice) -> int:
    return slice_.spec.pool.generation
