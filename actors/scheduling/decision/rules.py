"""Rules: a group of a profile's plugins, asked about nodes from PreFilter to Score, each in order.

A profile's rules are split into parts by the objects that they read, so that the answers of a part
can be kept until these objects change. Every error of a plugin becomes a PluginError that names the
plugin (see guard).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ..framework.cycle_state import CycleState
from ..framework.interface import (
    DependsOn,
    FilterPlugin,
    NodeFilterPlugin,
    NodeScorePlugin,
    Plugin,
    PreFilterResult,
    ScorePlugin,
)
from ..framework.status import SKIP, SUCCESS, Code, Status, unresolvable
from ..framework.verdicts import PASSES, Diagnosis, Verdicts
from ..kube.kinds import type_of
from ..kube.meta import HasMetadata
from ..model.cluster_objects import ClusterObjects
from ..model.pod_info import PodInfo
from ..model.pod_template import PodTemplate
from ..model.snapshot import NodeView, Snapshot
from ..model.vectors import Bools, Ints
from ..model.what_if import supposing
from .answers import (
    as_final_scores,
    as_normalized,
    as_passing,
    as_raw_scores,
    as_verdicts,
)
from .failures import (
    FILTER,
    NORMALIZE,
    PRE_FILTER,
    PRE_SCORE,
    SCORE,
)
from .guard import Hook, Points
from .scalar import FilterEach, FilterFeasible, ScoreEach, normalize_with_nodes
from .statuses import (
    as_pre_filtered,
    as_success_or_skip,
    check_codes,
    has_unusual_codes,
    unchecked,
    with_safe_reasons,
)
from .watched_hook import hook_of, hooks

# A filter that declares one of these judges each row by that row alone.
_ROW = (DependsOn.NODE, DependsOn.NODE_AND_PODS)
ROW_BY_ROW = (*_ROW, DependsOn.CLAIMS)
# The answers of rules that declare one of these are kept for the next pods of the same template.
KEPT = (DependsOn.NODE, DependsOn.NODE_AND_PODS, DependsOn.ALL_NODES)
# Looking up a member in its class is slow.
_UNRESOLVABLE = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
# In a view of fewer nodes, each node is checked for nominations.
FEW = 64


class PreFilterOutcome(msgspec.Struct, frozen=True):
    """The result of PreFilter: a status, and the names of the nodes that it leaves (None: all).

    `restricted_by` are the plugins that restricted the nodes.
    """

    status: Status
    node_names: frozenset[str] | None = None
    restricted_by: tuple[str, ...] = ()

    @property
    def reason_outside(self) -> str:
        """The reason for rejecting a node that is not among `node_names`."""
        return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.restricted_by))}]"


EVERY_NODE = PreFilterOutcome(SUCCESS)


class PluginScores(msgspec.Struct, frozen=True):
    """The final scores of one plugin, normalised and weighted: int64 for each position of the
    feasible view.
    """

    plugin: str
    scores: Ints


class FilterHooks(NamedTuple):
    """The hooks of a plugin at Filter: for verdicts, and only for passing nodes.

    With `only_feasible`, both hooks take a pair: the nodes, and which of them are still feasible
    (None: all).
    """

    verdicts: Hook[Verdicts | None]
    passing: Hook[Bools | None]
    only_feasible: bool


class ScoreHooks(NamedTuple):
    """The hooks of a plugin at Score; `normalize` is None if its scores are final.

    `normalize` takes a pair: the raw scores, and the nodes.
    """

    score: Hook[Ints]
    weight: int
    normalize: Hook[Ints] | None


class RawScores(msgspec.Struct, frozen=True):
    """The scores of one plugin for some rows before normalisation, int64 for each position."""

    by: ScoreHooks
    scores: Ints


def dependence_of(plugin: Plugin) -> DependsOn:
    """Returns `depends_on`; CLUSTER for plugins in the scalar form, which run for every pod."""
    if _is_scalar(type(plugin)):
        return DependsOn.CLUSTER
    if plugin.breaker is not None and plugin.may_be_left_out:
        return DependsOn.CLUSTER  # Its answers change when it is left out.
    return plugin.depends_on


@lru_cache(maxsize=256)
def _is_scalar(kind: type[Plugin]) -> bool:
    return issubclass(kind, (NodeFilterPlugin, NodeScorePlugin))


class RuleHooks(NamedTuple):
    """The hooks of some plugins from PreFilter to Score, in order."""

    pre_filter: list[Hook[PreFilterResult | Status]]
    filter: list[FilterHooks]
    pre_score: list[Hook[Status]]
    score: list[ScoreHooks]


class Rules:
    def __init__(self, by_point: RuleHooks) -> None:
        self._pre_filter, self._filter, self._pre_score, self._score = by_point
        self.scores_nothing = not self._score
        filters = [hooks.verdicts for hooks in self._filter]
        self._filter_names = [hook.name for hook in filters]
        self._filter_beyond_rows = [
            hook.name for hook in filters if dependence_of(hook.plugin) not in ROW_BY_ROW
        ]
        all_hooks: list[Hook[Any]] = [*self._pre_filter, *filters]
        self._see_all_values = {
            hook.name
            for hook in all_hooks
            if not hook.plugin.only_own_values and dependence_of(hook.plugin) is not DependsOn.NODE
        }
        of_rows = [hook for hook in filters if dependence_of(hook.plugin) in _ROW]
        self._filter_not_kept = set(self._filter_names) - {hook.name for hook in of_rows}
        self._filter_lookups = [type_of(kind) for hook in of_rows for kind in hook.plugin.lookups]

    def depending_on(self, *parts: DependsOn) -> Rules:
        """Returns the rules of the plugins that depend on one of these.

        Questions to this part are counted as questions to the whole.
        """

        def depends(hook: Hook[Any]) -> bool:
            return dependence_of(hook.plugin) in parts

        return Rules(
            RuleHooks(
                [hook for hook in self._pre_filter if depends(hook)],
                [hooks for hooks in self._filter if depends(hooks.verdicts)],
                [hook for hook in self._pre_score if depends(hook)],
                [hooks for hooks in self._score if depends(hooks.score)],
            )
        )

    @property
    def _hooks(self) -> list[Hook[Any]]:
        filters, scores = (h.verdicts for h in self._filter), (h.score for h in self._score)
        return [*self._pre_filter, *filters, *self._pre_score, *scores]

    @property
    def evaluations(self) -> dict[tuple[str, str], int]:
        """The number of questions to each plugin, by the names of extension point and plugin.

        In PreFilter and PreScore these are questions about a pod, unless the plugin returned SKIP,
        in Filter and Score questions about a node.
        """
        return {(hook.point.name, hook.name): hook.evaluations for hook in self._hooks}

    @property
    def lookups(self) -> frozenset[type[HasMetadata]]:
        """The kinds of object that the plugins look up."""
        return frozenset(type_of(kind) for hook in self._hooks for kind in hook.plugin.lookups)

    @property
    def prepares(self) -> bool:
        """True if PreFilter or PreScore of a plugin looks at all nodes before it is asked about
        single ones.
        """
        return bool(self._pre_filter or self._pre_score)

    # ------------------------------------------------------------------------------------ filtering

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> PreFilterOutcome:
        """Runs PreFilter, and returns the nodes that all plugins leave.

        A plugin that reports the pod as unresolvable ends it, and so do node sets that leave no
        node. If a plugin reports the pod as unschedulable, the others still run: preemption needs
        the data they write, and one may report it as unresolvable. The last such rejection counts.
        """
        names: frozenset[str] | None = None
        restricted_by: list[str] = []
        rejected = SUCCESS
        for hook in self._pre_filter:
            answer = hook.ask(state, info, snapshot)
            if answer is SKIP:
                state.left_out.add(hook.name)
                continue
            hook.evaluations += 1
            if answer is SUCCESS:
                continue
            if isinstance(answer, PreFilterResult):
                if answer.passes_all:
                    state.left_out.add(hook.name)
                    state.passes_filter.add(hook.name)
                if answer.node_names is not None:
                    names = answer.node_names if names is None else names & answer.node_names
                    restricted_by.append(hook.name)
                    if not names:
                        return PreFilterOutcome(
                            _no_node_left(restricted_by), names, tuple(restricted_by)
                        )
            elif answer.code is _UNRESOLVABLE:
                return PreFilterOutcome(answer)
            else:
                rejected = answer
        if rejected is SUCCESS and names is None:
            return EVERY_NODE
        return PreFilterOutcome(rejected, names, tuple(restricted_by))

    def supposed_state(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> CycleState:
        """Returns a copy of the state with what PreFilter writes while pods are supposed. Skipped
        plugins stay skipped.
        """
        supposed = state.copy()
        for hook in self._pre_filter:
            if hook.name not in state.left_out and hook.ask(supposed, info, snapshot) is SKIP:
                supposed.left_out.add(hook.name)
        return supposed

    @property
    def filters(self) -> Sequence[Plugin]:
        """The plugins that are enabled at Filter, in order."""
        return tuple(hooks.verdicts.plugin for hooks in self._filter)

    def filters_nothing(self, state: CycleState) -> bool:
        """True if no filter concerns the pod."""
        return state.left_out.issuperset(self._filter_names)

    def filters_row_by_row(self, state: CycleState) -> bool:
        """True if each filter's verdict about a row depends on that row alone."""
        return state.left_out.issuperset(self._filter_beyond_rows)

    def seen_by(self, state: CycleState, info: PodInfo) -> PodTemplate | None:
        """Returns the pod's template, if the filters look only at those values of other pods that
        the pod has itself; otherwise None.
        """
        return info.template if state.left_out.issuperset(self._see_all_values) else None

    def versions(self, state: CycleState, objects: ClusterObjects) -> tuple[int, ...] | None:
        """Returns the versions of the kinds that the filters look up; None if a filter's verdict
        depends on anything else than these kinds, the row and the pod's template.
        """
        if not state.left_out.issuperset(self._filter_not_kept):
            return None
        return tuple([objects.version(kind) for kind in self._filter_lookups])

    def filter(
        self,
        state: CycleState,
        info: PodInfo,
        nodes: NodeView,
        rejected: Mapping[int, Status] | None = None,
    ) -> Diagnosis:
        """Runs the filters over a view; each node keeps the first plugin that rejected it.
        `rejected` are positions that were rejected before.
        """
        diagnosis = Diagnosis(nodes)
        if rejected:
            for position, status in rejected.items():
                diagnosis.put(position, status)
            if len(rejected) == nodes.size:
                return diagnosis
        left_out, number = state.left_out, nodes.alive
        for hook, _, only_feasible in self._filter:
            if hook.name in left_out:
                continue
            hook.evaluations += number
            about = (nodes, diagnosis.feasible()) if only_feasible else nodes
            verdicts = hook.ask(state, info, about)
            if verdicts is not None:
                diagnosis.add(hook.name, with_safe_reasons(hook.plugin, info, verdicts))
        if has_unusual_codes(diagnosis.codes):
            check_codes(self.filters, info, diagnosis)
        return diagnosis

    def passing(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Bools | None:
        """Returns bool[nodes.size]: True where every filter accepts the pod, without reasons; None
        if all do.
        """
        passing: Bools | None = None
        left_out, number = state.left_out, nodes.size
        for hook, passing_hook, only_feasible in self._filter:
            if hook.name in left_out:
                continue
            hook.evaluations += number
            about = (nodes, passing) if only_feasible else nodes
            passes = passing_hook.ask(state, info, about)
            if passes is not None:
                passing = passes if passing is None else passing & passes
        return passing

    def diagnose(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Diagnosis:
        """Runs the filters. A node must pass both with and without the pods that are nominated to
        it ahead of this one.
        """
        rejected = None
        if nodes.snapshot.nominations:
            rejected = self.reject_for_nominated(state, info, nodes)
        return self.filter(state, info, nodes, rejected)

    def fits_on_node(self, state: CycleState, info: PodInfo, node: NodeView) -> bool:
        """True if a single node passes as in `diagnose`; gives no reasons."""
        passing = self.passing(state, info, node)
        if passing is not None and not passing[0]:
            return False
        nominations = node.snapshot.nominations
        return not (nominations and self.reject_for_nominated(state, info, node))

    def reject_for_nominated(
        self, state: CycleState, info: PodInfo, nodes: NodeView
    ) -> dict[int, Status]:
        """Returns the nodes, by position, that reject the pod once the pods nominated to them ahead
        of it run there.
        """
        snapshot = nodes.snapshot
        ahead = _nominated_ahead(info, nodes)
        positions = list(ahead)
        rejected = {}
        together = len(positions) if self.filters_row_by_row(state) else 1
        for start in range(0, len(positions), max(together, 1)):
            some = positions[start : start + together]
            rows = [nodes.row(position) for position in some]
            seen_by = self.seen_by(state, info)
            with supposing(snapshot, seen_by, only_adds=True) as supposition:
                for position, row in zip(some, rows, strict=True):
                    for pod in ahead[position]:
                        supposition.add(row, pod)
                supposition.settle()
                supposed = self.supposed_state(state, info, snapshot)
                diagnosis = self.filter(supposed, info, snapshot.rows(np.array(rows)))
            for i in np.flatnonzero(~diagnosis.feasible()).tolist():
                rejected[some[i]] = diagnosis.status(i)
        return rejected

    # -------------------------------------------------------------------------------------- scoring

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> None:
        """Runs PreScore on the feasible nodes."""
        for hook in self._pre_score:
            if hook.ask(state, info, nodes) is SKIP:
                state.skip_score.add(hook.name)
            else:
                hook.evaluations += 1

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> list[PluginScores]:
        """Runs Score, normalises and weighs, for every plugin that is not skipped."""
        result = []
        for hook, weight, normalize in self._score:
            if hook.name in state.skip_score:
                continue
            hook.evaluations += nodes.size
            scores = hook.ask(state, info, nodes)
            if normalize is not None:
                scores = normalize.ask(state, info, (scores, nodes))
            result.append(PluginScores(hook.name, scores if weight == 1 else scores * weight))
        return result

    def raw_scores(self, state: CycleState, info: PodInfo, nodes: NodeView) -> list[RawScores]:
        """Runs Score of every plugin that is not skipped, without normalising."""
        result = []
        for by in self._score:
            hook = by.score
            if hook.name not in state.skip_score:
                hook.evaluations += nodes.size
                result.append(RawScores(by, hook.ask(state, info, nodes)))
        return result


def _nominated_ahead(info: PodInfo, nodes: NodeView) -> dict[int, list[PodInfo]]:
    """Returns the nominated pods that the pod must leave room for, by position in the view.
    Positions without such pods are left out.
    """
    nominations, row_of = nodes.snapshot.nominations, nodes.columns.row_of
    named = nominations.nodes()
    if nodes.size < max(len(named), FEW):
        ahead = {
            position: nominations.ahead_of(info, nodes.name(position))
            for position in range(nodes.size)
        }
    else:
        rows = np.array([row_of[name] for name in named if name in row_of], dtype=np.int64)
        names = [nodes.columns.names[row] for row in rows.tolist()]
        positions = nodes.positions(rows).tolist()
        ahead = {
            p: nominations.ahead_of(info, name)
            for p, name in zip(positions, names, strict=True)
            if p >= 0
        }
    return {position: pods for position, pods in ahead.items() if pods}


# --------------------------------------------------------------------------------------- one plugin


def rule_hooks(points: Points) -> RuleHooks:
    return RuleHooks(
        hooks(points, "preFilter", PRE_FILTER, "pre_filter", as_pre_filtered, SUCCESS, SKIP),
        [
            _filter_hooks(plugin)
            for plugin, _ in points.get("filter", ())
            if isinstance(plugin, FilterPlugin | NodeFilterPlugin)
        ],
        hooks(points, "preScore", PRE_SCORE, "pre_score", as_success_or_skip, SUCCESS, SKIP),
        [
            _score_hooks(plugin, weight)
            for plugin, weight in points.get("score", ())
            if isinstance(plugin, ScorePlugin | NodeScorePlugin)
        ],
    )


def _filter_hooks(plugin: FilterPlugin | NodeFilterPlugin) -> FilterHooks:
    if not isinstance(plugin, FilterPlugin):
        each = FilterEach(plugin)
        verdicts = hook_of(plugin, FILTER, each.filter, unchecked)
        return FilterHooks(verdicts, hook_of(plugin, FILTER, each.passing, unchecked), True)
    inherited = type(plugin).passing is FilterPlugin.passing
    passing = _passing_by_filter(plugin) if inherited else plugin.passing
    if plugin.only_feasible:
        feasible = FilterFeasible(plugin.filter, passing)
        return FilterHooks(
            hook_of(plugin, FILTER, feasible.filter, unchecked, None),
            hook_of(plugin, FILTER, feasible.passing, unchecked, None),
            True,
        )
    return FilterHooks(
        hook_of(plugin, FILTER, plugin.filter, as_verdicts, None),
        hook_of(plugin, FILTER, passing, as_passing, None),
        False,
    )


def _score_hooks(plugin: ScorePlugin | NodeScorePlugin, weight: int) -> ScoreHooks:
    if not isinstance(plugin, ScorePlugin):
        return ScoreHooks(hook_of(plugin, SCORE, ScoreEach(plugin).score, unchecked), weight, None)
    if type(plugin).normalize is ScorePlugin.normalize:
        return ScoreHooks(hook_of(plugin, SCORE, plugin.score, as_final_scores), weight, None)
    call = normalize_with_nodes(plugin.normalize)
    normalize = hook_of(plugin, NORMALIZE, call, as_normalized)
    return ScoreHooks(hook_of(plugin, SCORE, plugin.score, as_raw_scores), weight, normalize)


def _no_node_left(plugins: list[str]) -> Status:
    message = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously"
    if len(plugins) == 1:
        message = f"node(s) didn't satisfy plugin {plugins[0]}"
    return unresolvable(message)


def _passing_by_filter(
    plugin: FilterPlugin,
) -> Callable[[CycleState, PodInfo, NodeView], Bools | None]:
    """Returns `passing` for a plugin that has only `filter`."""

    def passing(state: CycleState, info: PodInfo, nodes: NodeView) -> Bools | None:
        verdicts = plugin.filter(state, info, nodes)
        if verdicts is None:
            return None
        codes = as_verdicts(verdicts, nodes).codes
        if has_unusual_codes(codes):
            diagnosis = Diagnosis(nodes)
            diagnosis.add(plugin.name, with_safe_reasons(plugin, info, verdicts))
            check_codes((plugin,), info, diagnosis)
        return np.asarray(codes == PASSES)

    return passing
