"""Plays a recording in virtual time: the cluster changes as it did, and another scheduler decides.

What the recorded cluster's own scheduler decided is left out: a pod that came pending is pending,
and runs and ends only once it is bound here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

import msgspec

from berth.config.versions import CURRENT

from ...answers.explain.slow_answer import stops_in_plugins
from ...kubernetes.api.store import StoreEvent
from ...kubernetes.api.types.resources import Kind
from ..cluster import Cluster
from ..configuration import Configuration
from ..decisions import PodDecision, decide_stored
from ..history import PodLife
from ..pods import why_pending
from ..virtual_time import run_virtually
from .recording import BY_NAME, KINDS, RecordedChange

Document = dict[str, Any]
PODS = BY_NAME["Pod"]
LAST_SECONDS = 60.0  # after the last change
# The state of a pod that follows from its binding.
_DECIDED = ("nominatedNodeName", "conditions")


class PodComparison(msgspec.Struct, frozen=True):
    """A pod that was pending: its node in the recording and here, "" if it had none; and why."""

    name: str
    recorded: str
    here: str
    reason: str

    @property
    def is_same(self) -> bool:
        return self.recorded == self.here


def replayed(
    changes: Iterable[RecordedChange],
    config: Configuration = None,
    version: str = CURRENT.text,
    feature_gates: Mapping[str, bool] | None = None,
) -> list[PodComparison]:
    """Plays changes with a configuration, a version of Kubernetes, feature gates, and the plugins
    of files that are offered. Raises what Cluster raises for them.
    """

    async def story() -> list[PodComparison]:
        decides = _Decides(config=config, feature_gates=feature_gates, version=version)
        with stops_in_plugins():
            return await _Replay(list(changes), decides).play()

    return run_virtually(story)


class _Decides(TypedDict):
    """Who decides, as arguments of Cluster and of decide_stored."""

    config: Configuration
    feature_gates: Mapping[str, bool] | None
    version: str


class _Replay:
    def __init__(self, changes: list[RecordedChange], decides: _Decides) -> None:
        self._changes = sorted(changes, key=lambda change: change.at)
        self._decides = decides
        self._recorded: dict[str, str] = {}  # by uid, of the pods that came pending
        self._reasons: dict[str, str] = {}
        bound: set[str] = set()  # pods that had a node when they were seen first
        for change in self._changes:
            if change.kind == "Pod":
                uid = change.object["metadata"]["uid"]
                node = change.object["spec"].get("nodeName") or ""
                if node and uid not in self._recorded:
                    bound.add(uid)
                elif uid not in bound:
                    self._recorded[uid] = self._recorded.get(uid) or node

    async def play(self) -> list[PodComparison]:
        async with Cluster(
            **self._decides,
            controllers=False,
            kubelets=False,
            observers=(self._note,),
        ) as self._cluster:
            for change in self._changes:
                wait = change.at - self._cluster.now
                if wait > 0:
                    await self._cluster.run_for(wait)
                self._apply(change)
            await self._cluster.run_for(LAST_SECONDS)
            lives = self._cluster.history.lives
            return [self._compared(lives[uid], uid) for uid in self._recorded if uid in lives]

    def _compared(self, life: PodLife, uid: str) -> PodComparison:
        here = life.nodes[0] if life.nodes else ""
        recorded = self._recorded[uid]
        reason = self._reasons.get(uid, "")
        if not here and recorded:
            reason = why_pending(life.document) or "it was not tried"
        elif here and not recorded:
            reason = "it was pending until it was gone, or the recording ended"
        return PodComparison(f"{life.namespace}/{life.name}", recorded, here, reason)

    def _apply(self, change: RecordedChange) -> None:
        """Makes the object as it was, as far as it does not follow from a decision."""
        store, kind = self._cluster.store, BY_NAME[change.kind]
        metadata = change.object["metadata"]
        place = metadata.get("namespace", "") if kind.namespaced else "", metadata["name"]
        there = store.find(kind, *place)
        if there is not None and there["metadata"].get("uid") != metadata.get("uid"):
            store.delete(kind, *place)
            there = None
        if change.gone:
            if there is not None:
                store.delete(kind, *place)
            return
        metadata = {k: v for k, v in metadata.items() if k != "resourceVersion"}
        about = {"apiVersion": kind.api_version, "kind": kind.kind}
        document = {**change.object, **about, "metadata": metadata}
        if kind is PODS and metadata["uid"] in self._recorded:
            document = _undecided(document, there)
        if there is None:
            store.create(kind, document)
        else:
            store.update(kind, document)

    def _note(self, kind: Kind, event: StoreEvent) -> None:
        """Notes why a pod is bound to another node than it was."""
        if kind is not PODS or event.before is None:
            return
        before, after = event.before.document, event.after.document
        uid, here = after["metadata"]["uid"], after["spec"].get("nodeName")
        recorded = self._recorded.get(uid)
        if not here or before["spec"].get("nodeName") or not recorded or recorded == here:
            return
        try:
            self._reasons[uid] = self._why(before, here, recorded)
        except ValueError as unknown:  # the pod is bound all the same
            self._reasons[uid] = str(unknown)

    def _why(self, pod: Document, here: str, recorded: str) -> str:
        """Returns why a pod goes here, and not where it went. Raises ValueError."""
        uid = pod["metadata"]["uid"]
        others = [
            stored.document
            for each in KINDS
            for stored in self._cluster.store.list(each)
            if stored.document["metadata"].get("uid") != uid
        ]
        decision = decide_stored(pod, others, **self._decides)
        rejected = decision.rejections.get(recorded)
        if rejected:
            return f"{recorded}: {', '.join(rejected)}"
        if recorded in decision.scores and here in decision.scores:
            return _outscored(decision, here, recorded)
        return f"{recorded} is not there"


def _outscored(decision: PodDecision, here: str, recorded: str) -> str:
    """Returns the scores of two nodes, and those of the plugin in which they differ most."""
    scores = decision.scores
    told = f"{here} scores {scores[here]}, {recorded} {scores[recorded]}"
    ahead = {
        plugin: by_node.get(here, 0) - by_node.get(recorded, 0)
        for plugin, by_node in decision.scores_by_plugin.items()
    }
    most = max(ahead, key=ahead.__getitem__, default="")
    if not most or ahead[most] <= 0:
        return told
    by_node = decision.scores_by_plugin[most]
    return f"{told}, most by {most} ({by_node.get(here, 0)} and {by_node.get(recorded, 0)})"


def _undecided(document: Document, there: Document | None) -> Document:
    """Returns a pod as it would be with the node that it has here."""
    node = (there or {}).get("spec", {}).get("nodeName")
    spec = {k: v for k, v in document["spec"].items() if k != "nodeName"}
    status = {k: v for k, v in (document.get("status") or {}).items() if k not in _DECIDED}
    if node:
        spec["nodeName"] = node
    else:
        status["phase"] = "Pending"
    own = (there or {}).get("status") or {}
    status.update({field: own[field] for field in _DECIDED if field in own})
    return {**document, "spec": spec, "status": status}
