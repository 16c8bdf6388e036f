"""The log of decisions: how many nodes each plugin rejected, and all scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ..scheduling.decision.evaluation import Evaluation
from ..scheduling.decision.observer import DecisionObserver
from ..scheduling.decision.rules import PluginScores
from ..scheduling.framework.logger import Logger, get_logger
from ..scheduling.framework.questions import FilteredNodes
from ..scheduling.model.pod_info import PodInfo
from ..scheduling.model.snapshot import NodeView, Snapshot

FILTERED = 4
SCORED = 10  # as kube-scheduler's

log = get_logger(__name__)


class DecisionLog(DecisionObserver):
    """A log of decisions, written by an observer."""

    def __init__(self, bound: Logger) -> None:
        self._log = bound
        self.wants_scores = bound.shows(SCORED)

    def rejected(
        self,
        info: PodInfo,
        evaluation: Evaluation,
        filtered: FilteredNodes | None,
        snapshot: Snapshot,
    ) -> None:
        diagnosis, live = evaluation.diagnosis, evaluation.live
        restricting = _names(evaluation)
        by: dict[str, int] = {}
        if diagnosis is not None and live is not None:
            rejected = diagnosis.by[live]
            by = dict(Counter(diagnosis.plugins[i] for i in rejected[rejected >= 0].tolist()))
        self._log.at(
            FILTERED,
            "No node is left for pod",
            pod=info.key,
            nodes=0 if live is None else int(np.count_nonzero(live)),
            rejectedBy=by,
            **({"restrictedBy": restricting} if restricting else {}),
        )

    def scored(self, info: PodInfo, nodes: NodeView, scores: Sequence[PluginScores]) -> None:
        names = [nodes.name(position) for position in range(nodes.size)]
        for position, node in enumerate(names):
            for plugin in scores:
                self._log.at(
                    SCORED,
                    "Plugin scored node for pod",
                    pod=info.key,
                    plugin=plugin.plugin,
                    node=node,
                    score=int(plugin.scores[position]),
                )
        for position, node in enumerate(names):
            self._log.at(
                SCORED,
                "Calculated node's final score for pod",
                pod=info.key,
                node=node,
                score=sum(int(plugin.scores[position]) for plugin in scores),
            )


def _names(evaluation: Evaluation) -> list[str]:
    """Returns the plugins whose PreFilter left only some nodes, or none."""
    prefilter = evaluation.prefilter
    names = {*prefilter.restricted_by, prefilter.status.plugin}
    return sorted(names - {""})


def decision_log() -> DecisionObserver | None:
    """Returns an observer that logs, None if its lines are not shown."""
    bound = log.bind()
    return DecisionLog(bound) if bound.shows(FILTERED) else None
