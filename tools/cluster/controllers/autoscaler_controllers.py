"""The controller that decides on each autoscaler every 15 seconds, for the first time 15 seconds
after its creation.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from berth.actors.scheduling.kube.labels import Selector

from ...kubernetes.api.tables.column import selector_text
from ...kubernetes.api.types.resources import KINDS
from ...kubernetes.autoscaling.autoscaler_controller import (
    SYNC_SECONDS,
    ScaleTarget,
    ScalingDecision,
)
from ...kubernetes.autoscaling.scaling_limits import History
from ...kubernetes.disruption.budget_index import anything_in, pod_labels, selector_labels
from ...kubernetes.kubelet.hollow_nodes import is_stopped_by
from ...kubernetes.kubelet.usage_models import Scenario
from ...kubernetes.kubelet.usage_samples import Sample, sample_of
from ...kubernetes.object_index import ObjectIndex
from ...kubernetes.objects.autoscalers import HorizontalPodAutoscaler, Reference
from ...kubernetes.objects.properties import deleting, replicas_of
from ...kubernetes.objects.structs import (
    Deployment,
    Document,
    Node,
    Pod,
    ReplicaSet,
    Replicated,
    ReplicationController,
    StatefulSet,
)
from ...kubernetes.objects.writes import Again, Write
from ...kubernetes.work_items import Item
from ...kubernetes.workloads.adoption import selector_of
from .controller import Controller, itself, objects_before_and_after

Key = tuple[str, str]  # namespace and name
_SCALED: dict[tuple[str, str], type[Replicated]] = {
    ("apps", "Deployment"): Deployment,
    ("apps", "ReplicaSet"): ReplicaSet,
    ("apps", "StatefulSet"): StatefulSet,
    ("", "ReplicationController"): ReplicationController,
}


class _PendingScale(msgspec.Struct, frozen=True):
    """A change of the scale that the server has neither accepted nor refused yet."""

    before: int
    after: int
    at: float
    reason: str


class _AutoscalerState:
    """The state of an autoscaler since its creation."""

    def __init__(self, uid: str, due: float) -> None:
        self.uid = uid
        self.due = due
        self.history = History()
        self.rescaled: _PendingScale | None = None
        self.reported: frozenset[tuple[str, str]] = frozenset()
        self.filed: tuple[str, ...] = ()  # the labels under which its selector is filed


class Autoscalers:
    """The controller of all autoscalers."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._states: dict[Key, _AutoscalerState] = {}
        self._selectors: dict[str, dict[Key, Selector]] = {}  # by label, as pods are indexed
        self.row = Controller(
            "HorizontalPodAutoscaler",
            HorizontalPodAutoscaler,
            {HorizontalPodAutoscaler: objects_before_and_after(itself)},
            self.reconcile,
        )

    def reconcile(self, cluster: ObjectIndex, item: Item, now: datetime) -> list[Write]:
        key, seconds = (item.namespace, item.name), now.timestamp()
        obj = cluster.find(HorizontalPodAutoscaler, *key)
        state = self._states.get(key)
        if state is not None and (obj is None or deleting(obj) or obj.metadata.uid != state.uid):
            self._index_selector(key, state, None)
            del self._states[key]
            state = None
        if obj is None or deleting(obj):
            return []
        if state is None:
            state = _AutoscalerState(obj.metadata.uid, seconds + SYNC_SECONDS)
            self._states[key] = state
        writes: list[Write] = []
        rescaled, state.rescaled = state.rescaled, None
        refusal = cluster.refusals.get((item.kind, *key), "")
        if rescaled is not None and not refusal:
            if obj.spec.behavior is not None:  # only its policies look back
                state.history.scaled(rescaled.before, rescaled.after, rescaled.at)
        elif rescaled is not None:
            decision = ScalingDecision(obj, state.history, lambda _: None, now)
            writes = decision.after_failure(rescaled.after, rescaled.reason, refusal)
        elif seconds >= state.due:
            state.due = seconds + SYNC_SECONDS
            writes = self._decide(cluster, obj, key, state, now)
        return [*writes, Again(state.due - seconds)]

    def _decide(
        self,
        cluster: ObjectIndex,
        obj: HorizontalPodAutoscaler,
        key: Key,
        state: _AutoscalerState,
        now: datetime,
    ) -> list[Write]:
        def sample(pod: Pod) -> Sample | None:
            node = cluster.find(Node, "", pod.spec.node_name)
            if node is None or is_stopped_by(node.metadata.annotations):
                return None
            return sample_of(pod, now, self._scenario)

        decision = ScalingDecision(obj, state.history, sample, now, state.reported)
        scale = self._scale(cluster, obj.spec.scale_target_ref, key, state)
        if isinstance(scale, str):
            writes = decision.without_scale(scale)
        else:
            writes = decision.decide(scale)
            if decision.target is not None:
                state.rescaled = _PendingScale(
                    scale.replicas, decision.target, now.timestamp(), decision.reason
                )
        state.reported = decision.warnings
        return writes

    def _scale(
        self, cluster: ObjectIndex, reference: Reference, key: Key, state: _AutoscalerState
    ) -> ScaleTarget | str:
        """Returns the scale of a target, or why there is none."""
        group, kind = reference.api_version.rpartition("/")[0], reference.kind
        served = next((each for each in KINDS if (each.group, each.kind) == (group, kind)), None)
        if served is None:
            return f'no matches for kind "{kind}" in group "{group}"'
        if (group, kind) not in _SCALED:
            return "the server could not find the requested resource"
        target = cluster.find(_SCALED[group, kind], key[0], reference.name)
        if target is None:
            return f'{served.resource} "{reference.name}" not found'
        selector = selector_of(target)
        self._index_selector(key, state, selector)
        pods = _selected(cluster, key[0], selector)
        rivals = sorted(self._rivals(pods)) if pods else []
        names = [f"{{{name} {namespace}}}" for namespace, name in rivals]
        return ScaleTarget(kind, replicas_of(target), _text_of_selector(target), pods, names)

    def _index_selector(self, key: Key, state: _AutoscalerState, selector: Selector | None) -> None:
        """Indexes a selector by the labels of the pods that it may select."""
        labels = () if selector is None else tuple(selector_labels(key[0], selector))
        for label in state.filed:
            self._selectors[label].pop(key, None)
            if not self._selectors[label]:
                del self._selectors[label]
        for label in labels:
            assert selector is not None
            self._selectors.setdefault(label, {})[key] = selector
        state.filed = labels

    def _rivals(self, pods: list[Pod]) -> set[Key]:
        """Returns the autoscalers that select one of these pods."""
        different = {tuple(pod.metadata.labels.items()): pod for pod in pods}
        return {
            key
            for pod in different.values()
            for label in (anything_in(pod.metadata.namespace), *pod_labels(pod))
            for key, selector in self._selectors.get(label, {}).items()
            if selector.matches(pod.metadata.labels)
        }


def _selected(cluster: ObjectIndex, namespace: str, selector: Selector) -> list[Pod]:
    return [
        pod
        for pod in _candidates(cluster, namespace, selector)
        if selector.matches(pod.metadata.labels)
    ]


def _candidates(cluster: ObjectIndex, namespace: str, selector: Selector) -> Iterator[Pod]:
    """Yields all pods that the selector selects, and some others of the namespace."""
    labels = selector_labels(namespace, selector)
    if anything_in(namespace) in labels:
        yield from cluster.within(Pod, namespace)
        return
    for label in labels:
        yield from cluster.by(Pod, "label", label)


def _text_of_selector(target: Replicated) -> str:
    selector: Document = msgspec.to_builtins(target.spec.selector)
    if isinstance(target, ReplicationController):
        selector = {"matchLabels": selector}
    return selector_text(selector)
