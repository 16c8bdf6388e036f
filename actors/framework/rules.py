"""Rules: what some plugins of a profile have to say of nodes, from PreFilter to Score, each in its order.

A profile's rules fall into parts by what they read, so that the answers of a part can be kept for as long as nothing
changed that it reads. Whatever a plugin raises here becomes a PluginError that names it, and so does an answer that is
none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from actors.framework.cycle_state import CycleState
from actors.framework.failures import (
    FILTER,
    NORMALIZE,
    PRE_FILTER,
    PRE_SCORE,
    SCORE,
    answered,
    as_error,
    crashed,
    invalid_score,
)
from actors.framework.interface import (
    MAX_NODE_SCORE,
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
from actors.framework.status import SKIP, SUCCESS, Status, unresolvable
from actors.framework.verdicts import PASSES, Diagnosis, Explain, Verdicts
from actors.model.columns import Bools, Ints
from actors.model.pod_info import PodInfo
from actors.model.snapshot import NodeView, Snapshot
from actors.model.vectors import highest

# An extension point's name -> its plugins in order, each with its weight.
Points = Mapping[str, Sequence[tuple[Plugin, int]]]
NODE_SET_REASON = "node(s) didn't satisfy plugin(s) [{}]"


class PluginError(Exception):
    """A plugin raised, or gave an ERROR, where only a whole attempt can fail; carries the status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class PreFiltered(msgspec.Struct, frozen=True):
    """What PreFilter came to: a status, and the node names it leaves (None: all), with who restricted them."""

    status: Status
    node_names: frozenset[str] | None = None
    restricted_by: tuple[str, ...] = ()


class PluginScores(msgspec.Struct, frozen=True):
    """Final scores of one plugin: normalised and weighted, int64 a position of the feasible view."""

    plugin: str
    scores: Ints


class RawScores(msgspec.Struct, frozen=True):
    """The scores of one plugin for some rows, not normalised, int64 a position. `final` if they need not be."""

    plugin: ScorePlugin
    weight: int
    scores: Ints
    final: bool


def reads_of(plugin: Plugin) -> Reads:
    """What the plugin's answers depend on; the scalar forms are asked anew for every pod."""
    return Reads.CLUSTER if isinstance(plugin, NodeFilterPlugin | NodeScorePlugin) else plugin.reads


class Rules:
    def __init__(self, points: Points) -> None:
        self._points = points
        self._pre_filter = [p for p, _ in points.get("preFilter", ()) if isinstance(p, PreFilterPlugin)]
        self._filter: tuple[FilterPlugin | NodeFilterPlugin, ...] = tuple(
            p for p, _ in points.get("filter", ()) if isinstance(p, FilterPlugin | NodeFilterPlugin)
        )
        self._filter_beyond_rows = [p for p in self._filter if reads_of(p) not in (Reads.NODE, Reads.ROW)]
        self._pre_score = [p for p, _ in points.get("preScore", ()) if isinstance(p, PreScorePlugin)]
        self._score: tuple[tuple[ScorePlugin | NodeScorePlugin, int], ...] = tuple(
            (p, weight) for p, weight in points.get("score", ()) if isinstance(p, ScorePlugin | NodeScorePlugin)
        )

    def reading(self, reads: Reads) -> Rules:
        """The part of the rules that reads just this."""
        names = ("preFilter", "filter", "preScore", "score")
        return Rules({n: [(p, w) for p, w in self._points.get(n, ()) if reads_of(p) is reads] for n in names})

    # ---------------------------------------------------------------------------------------- filtering

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> PreFiltered:
        """Run PreFilter; the node sets of all plugins are intersected."""
        names: frozenset[str] | None = None
        restricted_by: list[str] = []
        for plugin in self._pre_filter:
            try:
                answer = plugin.pre_filter(state, info, snapshot)
            except Exception as exception:
                raise PluginError(crashed(plugin, PRE_FILTER, exception)) from exception
            if answer is SUCCESS:
                continue
            if answer is SKIP:
                state.skip_filter.add(plugin.name)
                continue
            if isinstance(answer, PreFilterResult):
                if answer.node_names is not None:
                    names = answer.node_names if names is None else names & answer.node_names
                    restricted_by.append(plugin.name)
                    if not names:
                        return PreFiltered(_no_node_left(restricted_by), names, tuple(restricted_by))
                continue
            try:
                status = answered(answer)
            except TypeError as problem:
                raise PluginError(crashed(plugin, PRE_FILTER, problem)) from problem
            if status.code is SKIP.code:
                state.skip_filter.add(plugin.name)
            elif status.rejected:
                return PreFiltered(status.by(plugin.name))
            elif not status.ok:
                raise PluginError(as_error(plugin, PRE_FILTER, status))
        return PreFiltered(SUCCESS, names, tuple(restricted_by))

    def supposed_state(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> CycleState:
        """The state that PreFilter gives while something is supposed; who asked to be skipped before stays so."""
        supposed = CycleState()
        supposed.skip_filter = state.skip_filter.copy()
        for plugin in self._pre_filter:
            if plugin.name in state.skip_filter:
                continue
            try:
                answer = plugin.pre_filter(supposed, info, snapshot)
            except Exception as exception:
                raise PluginError(crashed(plugin, PRE_FILTER, exception)) from exception
            if not isinstance(answer, PreFilterResult) and answer.code is SKIP.code:
                supposed.skip_filter.add(plugin.name)
        return supposed

    def filters_row_by_row(self, state: CycleState) -> bool:
        """True if what the filters say of a row depends on nothing but that row."""
        return all(plugin.name in state.skip_filter for plugin in self._filter_beyond_rows)

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Diagnosis:
        """Run the filters over a view; each node keeps the first plugin that rejected it."""
        diagnosis = Diagnosis(nodes)
        for plugin in self._filter:
            if plugin.name in state.skip_filter:
                continue
            try:
                if isinstance(plugin, FilterPlugin):
                    verdicts = _filter_all(plugin, state, info, nodes)
                else:
                    verdicts = _filter_each(plugin, state, info, nodes, diagnosis.feasible())
            except PluginError:
                raise
            except Exception as exception:
                raise PluginError(crashed(plugin, FILTER, exception)) from exception
            if verdicts is not None:
                diagnosis.add(
                    plugin.name, Verdicts(verdicts.codes, verdicts.keys, _explaining(plugin, verdicts.explain))
                )
        return diagnosis

    def passing(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Bools | None:
        """bool[nodes.size]: where every filter lets the pod in, without a word of why not; None for everywhere."""
        passing: Bools | None = None
        for plugin in self._filter:
            if plugin.name in state.skip_filter:
                continue
            try:
                if isinstance(plugin, FilterPlugin):
                    passes = _passing_all(plugin, state, info, nodes)
                else:
                    left = np.ones(nodes.size, dtype=np.bool_) if passing is None else passing
                    passes = _filter_each(plugin, state, info, nodes, left).codes == PASSES
            except PluginError:
                raise
            except Exception as exception:
                raise PluginError(crashed(plugin, FILTER, exception)) from exception
            if passes is not None:
                passing = passes if passing is None else passing & passes
        return passing

    # ---------------------------------------------------------------------------------------- scoring

    @property
    def scores_nothing(self) -> bool:
        return not self._score

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> None:
        """Run PreScore on the feasible nodes."""
        for plugin in self._pre_score:
            try:
                status = answered(plugin.pre_score(state, info, nodes))
            except Exception as exception:
                raise PluginError(crashed(plugin, PRE_SCORE, exception)) from exception
            if status is SKIP or status.code is SKIP.code:
                state.skip_score.add(plugin.name)
            elif not status.ok:
                raise PluginError(as_error(plugin, PRE_SCORE, status))

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> list[PluginScores]:
        """Run Score, normalise and weigh, for every plugin that did not ask to be skipped."""
        result = []
        for plugin, weight in self._score:
            if plugin.name in state.skip_score:
                continue
            scores = _scores(plugin, state, info, nodes)
            result.append(PluginScores(plugin.name, scores if weight == 1 else scores * weight))
        return result

    def raw_scores(self, state: CycleState, info: PodInfo, nodes: NodeView) -> list[RawScores]:
        """Run Score of the vector plugins that did not ask to be skipped, as they are before they are normalised."""
        result = []
        for plugin, weight in self._score:
            if plugin.name in state.skip_score or not isinstance(plugin, ScorePlugin):
                continue
            final = type(plugin).normalize is ScorePlugin.normalize
            try:
                scores = plugin.score(state, info, nodes)
                if final:
                    scores = checked_scores(plugin, scores, nodes.size)
            except PluginError:
                raise
            except Exception as exception:
                raise PluginError(crashed(plugin, SCORE, exception)) from exception
            result.append(RawScores(plugin, weight, scores, final))
        return result


def normalized(raw: RawScores, state: CycleState, info: PodInfo, scores: Ints) -> Ints:
    """Raw scores of a plugin as they count: normalised and weighted. Raises PluginError."""
    try:
        return checked_scores(raw.plugin, raw.plugin.normalize(state, info, scores), len(scores)) * raw.weight
    except PluginError:
        raise
    except Exception as exception:
        raise PluginError(crashed(raw.plugin, NORMALIZE, exception)) from exception


def _no_node_left(plugins: list[str]) -> Status:
    message = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously"
    if len(plugins) == 1:
        message = f"node(s) didn't satisfy plugin {plugins[0]}"
    return unresolvable(message)


def _filter_all(plugin: FilterPlugin, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
    """The vector form."""
    verdicts = plugin.filter(state, info, nodes)
    if verdicts is None:
        return None
    if not verdicts.codes.shape == verdicts.keys.shape == (nodes.size,):
        raise ValueError(f"expected verdicts on {nodes.size} nodes, got {verdicts.codes.shape}")
    return verdicts


def _passing_all(plugin: FilterPlugin, state: CycleState, info: PodInfo, nodes: NodeView) -> Bools | None:
    """The vector form, without a word of why not."""
    passing = plugin.passing(state, info, nodes)
    if passing is not None and passing.shape != (nodes.size,):
        raise ValueError(f"expected verdicts on {nodes.size} nodes, got {passing.shape}")
    return passing


def _explaining(plugin: Plugin, explain: Explain) -> Explain:
    """`explain` is asked after the filters ran, when nothing may fail any more."""

    def reasons(key: int) -> tuple[str, ...]:
        try:
            return explain(key)
        except Exception as exception:
            return crashed(plugin, FILTER, exception).reasons

    return reasons


def _filter_each(
    plugin: NodeFilterPlugin, state: CycleState, info: PodInfo, nodes: NodeView, feasible: Bools
) -> Verdicts:
    """The scalar form, asked only about nodes that are still feasible."""
    statuses: list[Status] = [SUCCESS]
    codes = np.zeros(nodes.size, dtype=np.int8)
    keys = np.zeros(nodes.size, dtype=np.int64)
    for position in np.flatnonzero(feasible).tolist():
        node = nodes.info(position)
        if node is None:
            continue
        status = answered(plugin.filter_node(state, info, node))
        if status.rejected:
            codes[position] = status.code
            keys[position] = len(statuses)
            statuses.append(status)
        elif not status.ok:
            raise PluginError(as_error(plugin, FILTER, status))
    return Verdicts(codes, keys, lambda key: statuses[key].reasons)


def _scores(plugin: ScorePlugin | NodeScorePlugin, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
    """The normalised scores of one plugin. Raises PluginError."""
    where = SCORE
    try:
        if isinstance(plugin, ScorePlugin):
            vector = plugin.score(state, info, nodes)
            where = NORMALIZE
            scores = np.asarray(plugin.normalize(state, info, vector))
        else:
            infos = [nodes.info(position) for position in range(nodes.size)]
            each = [plugin.score_node(state, info, node) for node in infos if node is not None]
            where = NORMALIZE
            scores = np.asarray(plugin.normalize_scores(state, info, each))
        return checked_scores(plugin, scores, nodes.size)
    except PluginError:
        raise
    except Exception as exception:
        raise PluginError(crashed(plugin, where, exception)) from exception


def checked_scores(plugin: Plugin, scores: Ints, size: int) -> Ints:
    """The normalised scores of `size` nodes, as they have to be.

    Raises PluginError if one is out of range, ValueError if they are no scores of so many nodes.
    """
    if scores.shape != (size,) or scores.dtype.kind not in "iu":
        raise ValueError(f"expected {size} integers as scores, got {scores.dtype} {scores.shape}")
    whole: Ints = scores.astype(np.int64, copy=False)
    if size and highest(whole.view(np.uint64)) > MAX_NODE_SCORE:  # What is below zero is large without its sign.
        first = int(whole[(whole < 0) | (whole > MAX_NODE_SCORE)][0])
        raise PluginError(invalid_score(plugin, first, 0, MAX_NODE_SCORE))
    return whole
