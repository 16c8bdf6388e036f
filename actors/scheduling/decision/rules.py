"""Rules: a group of a profile's plugins, run over nodes from PreFilter to Score, each in order.

A profile's rules are split into parts by what they read, so that the answers of a part can be kept
until something that it reads changes. Whatever a plugin raises here becomes a PluginError that
names the plugin; so does an invalid answer (see failures and answers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..framework.cycle_state import CycleState
from ..framework.interface import (
    FilterPlugin,
    NodeFilterPlugin,
    NodeScorePlugin,
    Plugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Reads,
    ScorePlugin,
)
from ..framework.status import SKIP, SUCCESS, Code, Status, unresolvable
from ..framework.verdicts import PASSES, Diagnosis, Verdicts
from ..kube.kinds import type_of
from ..kube.meta import HasMetadata
from ..model.columns import Bools, Ints
from ..model.pod_info import PodInfo
from ..model.snapshot import NodeView, Snapshot
from ..model.vectors import any_true, highest, lowest
from .answers import (
    as_final_scores,
    as_passing,
    as_raw_score,
    as_raw_scores,
    as_reasons,
    as_status,
    as_verdicts,
    check_range,
    expected,
    node_names_of,
)
from .failures import (
    APPLY_WEIGHTS,
    CRASHES,
    FILTER,
    NORMALIZE,
    PRE_FILTER,
    PRE_SCORE,
    SCORE,
    Point,
    as_error,
    crashed,
    signed,
)
from .timing import timed, watched

# What a filter may read so that its verdict about a row depends on that row alone.
ROW_BY_ROW = (Reads.NODE, Reads.ROW, Reads.CLAIMS)
# What rules may read so that their answers are kept for the next pods of the same template.
KEPT = (Reads.NODE, Reads.ROW, Reads.NODES)
# An extension point's name -> its plugins in order, each with its weight.
Points = Mapping[str, Sequence[tuple[Plugin, int]]]
# Looking up a member in its class is slow.
_SKIP, _UNSCHEDULABLE, _UNRESOLVABLE = (
    Code.SKIP,
    Code.UNSCHEDULABLE,
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
)
# The name of NormalizeScore in metrics.
NORMALIZED = Point("ScoreExtensionNormalize", NORMALIZE.failed)
_ERROR, _MOSTLY = int(Code.ERROR), int(_UNRESOLVABLE)


class PluginError(Exception):
    """A plugin raised or returned ERROR where only a whole attempt can fail; has the status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class PreFiltered(msgspec.Struct, frozen=True):
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


class PluginScores(msgspec.Struct, frozen=True):
    """The final scores of one plugin, normalised and weighted: int64 for each position of the
    feasible view.
    """

    plugin: str
    scores: Ints


class RawScores(msgspec.Struct, frozen=True):
    """The scores of one plugin for some rows before normalisation, int64 for each position. `final`
    if the plugin does not normalise.
    """

    plugin: ScorePlugin
    weight: int
    scores: Ints
    final: bool


def reads_of(plugin: Plugin) -> Reads:
    """What the plugin's answers depend on; CLUSTER for scalar forms, which run for every pod."""
    return Reads.CLUSTER if isinstance(plugin, NodeFilterPlugin | NodeScorePlugin) else plugin.reads


class Evaluations:
    """How often each plugin was asked: about a pod in PreFilter and PreScore, unless it returned
    SKIP, and about a node in Filter and Score. By the plugin's name, for each extension point.
    """

    __slots__ = ("filter", "pre_filter", "pre_score", "score")

    def __init__(self, points: Points) -> None:
        def at(point: str) -> dict[str, int]:
            return {plugin.name: 0 for plugin, _ in points.get(point, ())}

        self.pre_filter = at("preFilter")
        self.filter = at("filter")
        self.pre_score = at("preScore")
        self.score = at("score")

    def by_point(self) -> dict[tuple[str, str], int]:
        """The numbers by the names of the extension point and the plugin."""
        points = {
            PRE_FILTER.name: self.pre_filter,
            FILTER.name: self.filter,
            PRE_SCORE.name: self.pre_score,
            SCORE.name: self.score,
        }
        return {
            (point, plugin): number
            for point, numbers in points.items()
            for plugin, number in numbers.items()
        }


class Rules:
    """`evaluations` are those of the whole profile, if these rules are a part of it."""

    def __init__(self, points: Points, evaluations: Evaluations | None = None) -> None:
        self._points = points
        self.evaluations = evaluations or Evaluations(points)
        self._pre_filter: Sequence[PreFilterPlugin] = [
            p for p, _ in points.get("preFilter", ()) if isinstance(p, PreFilterPlugin)
        ]
        self._filter: tuple[FilterPlugin | NodeFilterPlugin, ...] = tuple(
            p for p, _ in points.get("filter", ()) if isinstance(p, FilterPlugin | NodeFilterPlugin)
        )
        self._filter_names = [p.name for p in self._filter]
        self._filter_beyond_rows = [p.name for p in self._filter if reads_of(p) not in ROW_BY_ROW]
        self._pre_score: Sequence[PreScorePlugin] = [
            p for p, _ in points.get("preScore", ()) if isinstance(p, PreScorePlugin)
        ]
        self._score: tuple[tuple[ScorePlugin | NodeScorePlugin, int], ...] = tuple(
            (p, weight)
            for p, weight in points.get("score", ())
            if isinstance(p, ScorePlugin | NodeScorePlugin)
        )

    def reading(self, *reads: Reads) -> Rules:
        """The part of the rules that reads one of these."""
        names = ("preFilter", "filter", "preScore", "score")
        return Rules(
            {
                n: [(p, w) for p, w in self._points.get(n, ()) if reads_of(p) in reads]
                for n in names
            },
            self.evaluations,
        )

    @property
    def lookups(self) -> frozenset[type[HasMetadata]]:
        """The kinds of object that the plugins look up."""
        plugins = (plugin for plugins in self._points.values() for plugin, _ in plugins)
        return frozenset(type_of(kind) for plugin in plugins for kind in plugin.lookups)

    @property
    def prepares(self) -> bool:
        """True if a plugin looks at all nodes together, in PreFilter or PreScore, before it is
        asked about single nodes.
        """
        return bool(self._pre_filter or self._pre_score)

    # ------------------------------------------------------------------------------------ filtering

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> PreFiltered:
        """Runs PreFilter and intersects the node sets of all plugins.

        A plugin that finds the pod unresolvable ends it, and so do node sets that leave no node.
        After a plugin that finds the pod unschedulable the others still run: preemption needs what
        they write, and they may find the pod unresolvable. The last such rejection counts.
        """
        names: frozenset[str] | None = None
        restricted_by: list[str] = []
        rejected = SUCCESS
        plugins = self._pre_filter
        if state.record.detailed:
            plugins = watched(state.record, plugins)
        for plugin in plugins:
            answer = _pre_filtered(plugin, state, info, snapshot)
            if answer is SKIP:
                state.left_out.add(plugin.name)
                continue
            self.evaluations.pre_filter[plugin.name] += 1
            if answer is SUCCESS:
                continue
            if isinstance(answer, PreFilterResult):
                if answer.passes_all:
                    state.left_out.add(plugin.name)
                    state.passes_filter.add(plugin.name)
                if answer.node_names is not None:
                    names = answer.node_names if names is None else names & answer.node_names
                    restricted_by.append(plugin.name)
                    if not names:
                        return PreFiltered(
                            _no_node_left(restricted_by), names, tuple(restricted_by)
                        )
            elif answer.code is _SKIP:
                state.left_out.add(plugin.name)
                self.evaluations.pre_filter[plugin.name] -= 1
            elif answer.code is _UNRESOLVABLE:
                return PreFiltered(answer)
            elif answer.code is _UNSCHEDULABLE:
                rejected = answer
        return PreFiltered(rejected, names, tuple(restricted_by))

    def supposed_state(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> CycleState:
        """The state that PreFilter writes while pods are supposed. Plugins that were skipped before
        stay skipped.
        """
        supposed = CycleState()
        supposed.left_out = state.left_out.copy()
        supposed.passes_filter = state.passes_filter.copy()
        for plugin in self._pre_filter:
            if plugin.name in state.left_out:
                continue
            answer = _pre_filtered(plugin, supposed, info, snapshot)
            if not isinstance(answer, PreFilterResult) and answer.code is Code.SKIP:
                supposed.left_out.add(plugin.name)
        return supposed

    @property
    def filters(self) -> Sequence[FilterPlugin | NodeFilterPlugin]:
        """The plugins that are enabled at Filter, in order."""
        return self._filter

    def filters_nothing(self, state: CycleState) -> bool:
        """True if no filter concerns the pod."""
        return state.left_out.issuperset(self._filter_names)

    def filters_row_by_row(self, state: CycleState) -> bool:
        """True if each filter's verdict about a row depends on that row alone."""
        return state.left_out.issuperset(self._filter_beyond_rows)

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Diagnosis:
        """Runs the filters over a view; each node keeps the first plugin that rejected it."""
        diagnosis = Diagnosis(nodes)
        record, asked, number = state.record, self.evaluations.filter, nodes.alive
        detailed = record.detailed
        for plugin in self._filter:
            name = plugin.name
            if name in state.left_out:
                continue
            asked[name] += number
            if isinstance(plugin, FilterPlugin):
                ask = _filter_all
                if detailed:
                    ask = timed(record, FILTER, ask, name)
                verdicts = ask(plugin, state, info, nodes)
            else:
                each = _filter_each
                if detailed:
                    each = timed(record, FILTER, each, name)
                verdicts = each(plugin, state, info, nodes, diagnosis.feasible())
            if verdicts is not None:
                _add(plugin, info, verdicts, diagnosis)
        if _strange(diagnosis.codes):
            _check_codes(self._filter, info, diagnosis)
        return diagnosis

    def passing(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Bools | None:
        """bool[nodes.size]: True where every filter accepts the pod, without reasons; None if all
        do.
        """
        passing: Bools | None = None
        record, asked, number = state.record, self.evaluations.filter, nodes.size
        detailed = record.detailed
        for plugin in self._filter:
            name = plugin.name
            if name in state.left_out:
                continue
            asked[name] += number
            if isinstance(plugin, FilterPlugin):
                ask = _passing_all
                if detailed:
                    ask = timed(record, FILTER, ask, name)
                passes = ask(plugin, state, info, nodes)
            else:
                left = np.ones(nodes.size, dtype=np.bool_) if passing is None else passing
                each = _filter_each
                if detailed:
                    each = timed(record, FILTER, each, name)
                passes = each(plugin, state, info, nodes, left).codes == PASSES
            if passes is not None:
                passing = passes if passing is None else passing & passes
        return passing

    # -------------------------------------------------------------------------------------- scoring

    @property
    def scores_nothing(self) -> bool:
        return not self._score

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> None:
        """Runs PreScore on the feasible nodes."""
        plugins = self._pre_score
        if state.record.detailed:
            plugins = watched(state.record, plugins)
        for plugin in plugins:
            try:
                status = as_status(plugin.pre_score(state, info, nodes))
            except CRASHES as exception:
                raise PluginError(
                    crashed(plugin, PRE_SCORE, exception, pod=info.key)
                ) from exception
            if status is SKIP or status.code is _SKIP:
                state.skip_score.add(plugin.name)
                continue
            self.evaluations.pre_score[plugin.name] += 1
            if not status.ok:
                raise PluginError(as_error(plugin, PRE_SCORE, status))

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> list[PluginScores]:
        """Runs Score, normalises and weighs, for every plugin that is not skipped."""
        result = []
        record = state.record
        for plugin, weight in self._score:
            name = plugin.name
            if name in state.skip_score:
                continue
            self.evaluations.score[name] += nodes.size
            if isinstance(plugin, ScorePlugin):
                ask = _raw_scores
                if record.detailed:
                    ask = timed(record, SCORE, ask, name)
                raw = ask(plugin, weight, state, info, nodes)
                scores = (
                    raw.scores if raw.final else normalized(raw, state, info, raw.scores, nodes)
                )
            else:
                each = _score_each
                if record.detailed:
                    each = timed(record, SCORE, each, name)
                scores = each(plugin, state, info, nodes)
            result.append(PluginScores(plugin.name, scores if weight == 1 else scores * weight))
        return result

    def raw_scores(self, state: CycleState, info: PodInfo, nodes: NodeView) -> list[RawScores]:
        """Runs Score of the vector plugins that are not skipped, without normalising."""
        result = []
        record = state.record
        for plugin, weight in self._score:
            if plugin.name in state.skip_score or not isinstance(plugin, ScorePlugin):
                continue
            self.evaluations.score[plugin.name] += nodes.size
            ask = _raw_scores
            if record.detailed:
                ask = timed(record, SCORE, ask, plugin.name)
            result.append(ask(plugin, weight, state, info, nodes))
        return result


# --------------------------------------------------------------------------------------- one plugin


def _pre_filtered(
    plugin: PreFilterPlugin, state: CycleState, info: PodInfo, snapshot: Snapshot
) -> Status | PreFilterResult:
    """One plugin's PreFilter: success with the nodes that it leaves, SKIP, or a rejection of the
    pod.
    """
    try:
        answer = plugin.pre_filter(state, info, snapshot)
        if answer is SUCCESS or answer is SKIP:
            return answer
        if isinstance(answer, PreFilterResult):
            return PreFilterResult(node_names_of(answer), answer.passes_all is True)
        status = as_status(answer)
    except CRASHES as exception:
        raise PluginError(crashed(plugin, PRE_FILTER, exception, pod=info.key)) from exception
    if status.code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
        return signed(plugin, status)
    if status.code not in (Code.SUCCESS, Code.SKIP):
        raise PluginError(as_error(plugin, PRE_FILTER, status))
    return status


def _no_node_left(plugins: list[str]) -> Status:
    message = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously"
    if len(plugins) == 1:
        message = f"node(s) didn't satisfy plugin {plugins[0]}"
    return unresolvable(message)


def _filter_all(
    plugin: FilterPlugin, state: CycleState, info: PodInfo, nodes: NodeView
) -> Verdicts | None:
    """Runs Filter in the vector form."""
    try:
        verdicts = plugin.filter(state, info, nodes)
        return None if verdicts is None else as_verdicts(verdicts, nodes)
    except CRASHES as exception:
        raise PluginError(crashed(plugin, FILTER, exception, pod=info.key)) from exception


def _passing_all(
    plugin: FilterPlugin, state: CycleState, info: PodInfo, nodes: NodeView
) -> Bools | None:
    """Runs `passing`, the vector form without reasons."""
    if type(plugin).passing is FilterPlugin.passing:
        verdicts = _filter_all(plugin, state, info, nodes)
        if verdicts is None:
            return None
        if _strange(verdicts.codes):
            diagnosis = Diagnosis(nodes)
            _add(plugin, info, verdicts, diagnosis)
            _check_codes((plugin,), info, diagnosis)
        return np.asarray(verdicts.codes == PASSES)
    try:
        return as_passing(plugin.passing(state, info, nodes), nodes)
    except CRASHES as exception:
        raise PluginError(crashed(plugin, FILTER, exception, pod=info.key)) from exception


def _add(plugin: Plugin, info: PodInfo, verdicts: Verdicts, diagnosis: Diagnosis) -> None:
    """Adds verdicts to the diagnosis, with reasons that cannot fail: they are explained after the
    filters ran, when no attempt can fail any more.
    """

    def explain(key: int) -> tuple[str, ...]:
        try:
            return as_reasons(verdicts.explain(key))
        except CRASHES as exception:
            return crashed(plugin, FILTER, exception, pod=info.key).reasons

    diagnosis.add(plugin.name, Verdicts(verdicts.codes, verdicts.keys, explain))


_ANSWERS = (Code.SUCCESS, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)


def _strange(codes: NDArray[np.int8]) -> bool:
    """True if there are codes other than the usual ones of filters."""
    return len(codes) > 0 and (
        not 0 <= lowest(codes) <= highest(codes) <= _MOSTLY or any_true(codes == _ERROR)
    )


def _check_codes(
    filters: Sequence[FilterPlugin | NodeFilterPlugin], info: PodInfo, diagnosis: Diagnosis
) -> None:
    """Raises PluginError if a filter gave a node ERROR, or a code that a filter may not return."""
    for position in np.flatnonzero(~np.isin(diagnosis.codes, _ANSWERS)).tolist():
        view = diagnosis.view
        if view.info(position) is None:
            continue  # The row has no node, so the verdict does not count.
        name, code = diagnosis.plugins[diagnosis.by[position]], int(diagnosis.codes[position])
        plugin = next(plugin for plugin in filters if plugin.name == name)
        if code == _ERROR:
            raise PluginError(as_error(plugin, FILTER, diagnosis.status(position)))
        problem = expected("the code of Success or of a rejection", code)
        raise PluginError(crashed(plugin, FILTER, problem, pod=info.key, named=view.name(position)))


def _filter_each(
    plugin: NodeFilterPlugin, state: CycleState, info: PodInfo, nodes: NodeView, feasible: Bools
) -> Verdicts:
    """Runs Filter in the scalar form, only for nodes that are still feasible."""
    statuses: list[Status] = [SUCCESS]
    codes = np.zeros(nodes.size, dtype=np.int8)
    keys = np.zeros(nodes.size, dtype=np.int64)
    for position in np.flatnonzero(feasible).tolist():
        node = nodes.info(position)
        if node is None:
            continue
        try:
            status = as_status(plugin.filter_node(state, info, node))
        except CRASHES as exception:
            raise PluginError(
                crashed(plugin, FILTER, exception, pod=info.key, named=node.name)
            ) from exception
        if status.rejected:
            codes[position] = status.code
            keys[position] = len(statuses)
            statuses.append(status)
        elif not status.ok:
            raise PluginError(as_error(plugin, FILTER, status))
    return Verdicts(codes, keys, lambda key: statuses[key].reasons)


def _raw_scores(
    plugin: ScorePlugin, weight: int, state: CycleState, info: PodInfo, nodes: NodeView
) -> RawScores:
    """Runs Score in the vector form without normalising; checks the range too if the scores are
    final.
    """
    final = type(plugin).normalize is ScorePlugin.normalize
    point = SCORE
    try:
        scores = as_raw_scores(plugin.score(state, info, nodes), nodes)
        if final:
            point = APPLY_WEIGHTS
            check_range(scores, nodes)
    except CRASHES as exception:
        raise PluginError(crashed(plugin, point, exception, pod=info.key)) from exception
    return RawScores(plugin, weight, scores, final)


def normalized(
    raw: RawScores, state: CycleState, info: PodInfo, scores: Ints, nodes: NodeView
) -> Ints:
    """A plugin's raw scores for a view, normalised. Raises PluginError."""
    normalize = raw.plugin.normalize
    if state.record.detailed:
        normalize = timed(state.record, NORMALIZED, normalize, raw.plugin.name)
    try:
        answer = normalize(state, info, scores)
    except CRASHES as exception:
        raise PluginError(crashed(raw.plugin, NORMALIZE, exception, pod=info.key)) from exception
    return _final(raw.plugin, info, answer, nodes)


def _score_each(plugin: NodeScorePlugin, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
    """Runs Score in the scalar form and normalises."""
    scores = []
    for position in range(nodes.size):
        node = nodes.info(position)
        if node is None:
            continue
        try:
            scores.append(as_raw_score(plugin.score_node(state, info, node)))
        except CRASHES as exception:
            raise PluginError(
                crashed(plugin, SCORE, exception, pod=info.key, named=node.name)
            ) from exception
    try:
        answer = plugin.normalize_scores(state, info, scores)
    except CRASHES as exception:
        raise PluginError(crashed(plugin, NORMALIZE, exception, pod=info.key)) from exception
    return _final(plugin, info, answer, nodes)


def _final(plugin: Plugin, info: PodInfo, answer: object, nodes: NodeView) -> Ints:
    """The normalised scores of a view as int64, with their range checked."""
    point = NORMALIZE
    try:
        scores = as_final_scores(answer, nodes)
        point = APPLY_WEIGHTS
        check_range(scores, nodes)
    except CRASHES as exception:
        raise PluginError(crashed(plugin, point, exception, pod=info.key)) from exception
    return scores
