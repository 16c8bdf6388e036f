"""The ElasticQuotas plugin: namespaces have a guaranteed minimum, and may borrow up to a maximum
what others leave of theirs.

Mirrors the kind and the rule of the CapacityScheduling plugin of
kubernetes-sigs/scheduler-plugins; a resource that nobody names is not limited. What a namespace
uses is read from the snapshot, which has the pods that are still being bound: so Reserve has
nothing to count, and preemption's dry runs see the pods that are supposed to go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from berth.plugin import (
    SKIP,
    SUCCESS,
    Action,
    ClusterEvent,
    CycleState,
    ObjectMeta,
    PodInfo,
    PreFilterPlugin,
    Registration,
    Resource,
    Snapshot,
    Status,
    WatchedKind,
    milli,
    quantity,
    unschedulable,
)

API_VERSION = "scheduling.x-k8s.io/v1alpha1"


class ElasticQuotaSpec(msgspec.Struct, frozen=True):
    """Amounts by resource, as the API server keeps them: `cpu: 4` stays a number."""

    min: dict[str, str | int] = {}
    max: dict[str, str | int] = {}


class ElasticQuota(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: ElasticQuotaSpec = ElasticQuotaSpec()


QUOTAS = WatchedKind(
    API_VERSION, "ElasticQuota", f"/apis/{API_VERSION}/elasticquotas", ElasticQuota
)


class ElasticQuotas(PreFilterPlugin):
    name = "ElasticQuotas"
    lookups = (QUOTAS,)

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Status:
        namespace = info.pod.metadata.namespace
        quotas = {each.metadata.namespace: each for each in snapshot.objects.every(ElasticQuota)}
        quota = quotas.get(namespace)
        if quota is None:
            return SKIP
        then = _used(namespace, snapshot) + Counter(info.requests)
        most = _amounts(quota.spec.max)
        over = sorted(name for name in most if then[name] > most[name])
        if over:
            return unschedulable(f"quota of namespace {namespace} exceeded: {', '.join(over)}")
        own = _amounts(quota.spec.min)
        guaranteed: Counter[str] = Counter()
        for each in quotas.values():
            guaranteed.update(_amounts(each.spec.min))
        asked = guaranteed.keys() & info.requests.keys()
        borrowed = {name for name in asked if then[name] > own.get(name, 0)}
        if not borrowed:
            return SUCCESS
        for other in quotas.keys() - {namespace}:
            then.update(_used(other, snapshot))
        over = sorted(name for name in borrowed if then[name] > guaranteed[name])
        if over:
            return unschedulable(f"no namespace has quota to lend: {', '.join(over)}")
        return SUCCESS

    def events_to_register(self) -> Sequence[Registration]:
        return (
            Registration(
                ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN)
            ),
            Registration(ClusterEvent("ElasticQuota", Action.ADD | Action.UPDATE | Action.DELETE)),
        )


def _used(namespace: str, snapshot: Snapshot) -> Counter[str]:
    """Returns what the pods of a namespace request."""
    used: Counter[str] = Counter()
    for _, pod in snapshot.pods(namespace):
        used.update(pod.requests)
    return used


def _amounts(given: Mapping[str, str | int]) -> Mapping[str, int]:
    return {name: _amount(name, str(text)) for name, text in given.items()}


def _amount(name: str, text: str) -> int:
    """Returns an amount, 0 for what is none: it must not fail the pods of other namespaces."""
    try:
        return milli(text) if name == "cpu" else quantity(text)
    except ValueError:
        return 0
