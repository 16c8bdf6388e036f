"""The profile runner: the plugins of one profile, run in their order at each extension point.

The only room that catches whatever a plugin raises: an exception becomes an ERROR status that names the plugin and
fails that pod's attempt, never the process. Mirrors the framework's frameworkImpl.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from actors.framework.cycle_state import CycleState
from actors.framework.events import Registration
from actors.framework.interface import (
    BindPlugin,
    FilterPlugin,
    NodeFilterPlugin,
    NodeScorePlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from actors.framework.status import SUCCESS, Code, Status, error, unresolvable
from actors.framework.verdicts import Diagnosis, Verdicts
from actors.kube.core import Pod
from actors.model.columns import Ints
from actors.model.pod_info import PodInfo
from actors.model.snapshot import NodeView, Snapshot

P = TypeVar("P", bound=Plugin)
R = TypeVar("R")
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


def attempt(plugin: Plugin, call: Callable[[], R]) -> R:
    """Run one hook; whatever it raises becomes a PluginError that names the plugin."""
    try:
        return call()
    except PluginError:
        raise
    except Exception as exception:
        raise PluginError(crashed(plugin, exception)) from exception


def crashed(plugin: Plugin, exception: Exception) -> Status:
    return error(f"plugin {plugin.name} failed: {type(exception).__name__}: {exception}").by(plugin.name)


class Profile:
    """The plugins of one scheduler name. `points` maps an extension point's name to (plugin, weight) in order."""

    def __init__(
        self,
        scheduler_name: str,
        points: Mapping[str, Sequence[tuple[Plugin, int]]],
        percentage_of_nodes_to_score: int | None = None,
    ) -> None:
        self.scheduler_name = scheduler_name
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        every = {plugin.name: plugin for plugins in points.values() for plugin, _ in plugins}
        self.plugins: tuple[Plugin, ...] = tuple(every.values())

        def at(point: str) -> list[Plugin]:
            return [plugin for plugin, _ in points.get(point, ())]

        self.pre_enqueue_plugins = [p for p in at("preEnqueue") if isinstance(p, PreEnqueuePlugin)]
        self.queue_sort = next(p for p in at("queueSort") if isinstance(p, QueueSortPlugin))
        self._pre_filter = [p for p in at("preFilter") if isinstance(p, PreFilterPlugin)]
        self._filter: tuple[FilterPlugin | NodeFilterPlugin, ...] = tuple(
            p for p in at("filter") if isinstance(p, FilterPlugin | NodeFilterPlugin)
        )
        self._pre_score = [p for p in at("preScore") if isinstance(p, PreScorePlugin)]
        self._score: tuple[tuple[ScorePlugin | NodeScorePlugin, int], ...] = tuple(
            (p, weight) for p, weight in points.get("score", ()) if isinstance(p, ScorePlugin | NodeScorePlugin)
        )
        self._reserve = [p for p in at("reserve") if isinstance(p, ReservePlugin)]
        self._permit = [p for p in at("permit") if isinstance(p, PermitPlugin)]
        self._pre_bind = [p for p in at("preBind") if isinstance(p, PreBindPlugin)]
        self._bind = [p for p in at("bind") if isinstance(p, BindPlugin)]
        self._post_bind = [p for p in at("postBind") if isinstance(p, PostBindPlugin)]

    # ---------------------------------------------------------------------------------------- before the queue

    def pre_enqueue(self, pod: Pod) -> Status:
        """The first answer that keeps the pod out of the active queue, or success."""
        for plugin in self.pre_enqueue_plugins:
            try:
                status = plugin.pre_enqueue(pod)
            except Exception as exception:
                return crashed(plugin, exception)
            if not status.ok:
                return status.by(plugin.name)
        return SUCCESS

    def hints(self) -> dict[str, Sequence[Registration]]:
        """The events that each plugin registered for, by its name."""
        return {plugin.name: plugin.events_to_register() for plugin in self.plugins}

    # ---------------------------------------------------------------------------------------- filtering

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> PreFiltered:
        """Run PreFilter; the node sets of all plugins are intersected."""
        names: frozenset[str] | None = None
        restricted_by: list[str] = []
        skipped: set[str] = set()
        for plugin in self._pre_filter:
            answer = attempt(plugin, lambda p=plugin: p.pre_filter(state, info, snapshot))  # type: ignore[misc]
            if isinstance(answer, PreFilterResult):
                if answer.node_names is not None:
                    names = answer.node_names if names is None else names & answer.node_names
                    restricted_by.append(plugin.name)
                    if not names:
                        return PreFiltered(self._no_node_left(restricted_by), names, tuple(restricted_by))
            elif answer.code is Code.SKIP:
                skipped.add(plugin.name)
            elif answer.rejected:
                return PreFiltered(answer.by(plugin.name))
            elif not answer.ok:
                raise PluginError(answer.by(plugin.name))
        state.skip_filter = skipped
        return PreFiltered(SUCCESS, names, tuple(restricted_by))

    def supposed_state(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> CycleState:
        """The state that PreFilter gives while something is supposed; who asked to be skipped before stays so."""
        supposed = CycleState()
        for plugin in self._pre_filter:
            if plugin.name not in state.skip_filter:
                attempt(plugin, lambda p=plugin: p.pre_filter(supposed, info, snapshot))  # type: ignore[misc]
        supposed.skip_filter = state.skip_filter
        return supposed

    @staticmethod
    def _no_node_left(plugins: list[str]) -> Status:
        message = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously"
        if len(plugins) == 1:
            message = f"node(s) didn't satisfy plugin {plugins[0]}"
        return unresolvable(message)

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Diagnosis:
        """Run the filters over a view; each node keeps the first plugin that rejected it."""
        diagnosis = Diagnosis(nodes)
        for plugin in self._filter:
            if plugin.name in state.skip_filter:
                continue
            if isinstance(plugin, FilterPlugin):
                verdicts = attempt(plugin, lambda p=plugin: p.filter(state, info, nodes))  # type: ignore[misc]
            else:
                verdicts = self._filter_each(plugin, state, info, nodes, diagnosis)
            if verdicts is not None:
                diagnosis.add(plugin.name, verdicts)
        return diagnosis

    @staticmethod
    def _filter_each(
        plugin: NodeFilterPlugin, state: CycleState, info: PodInfo, nodes: NodeView, so_far: Diagnosis
    ) -> Verdicts:
        """The scalar form, asked only about nodes that are still feasible."""
        statuses: list[Status] = [SUCCESS]
        codes = np.zeros(nodes.size, dtype=np.int8)
        keys = np.zeros(nodes.size, dtype=np.int64)
        for position in np.flatnonzero(so_far.feasible()).tolist():
            node = nodes.info(position)
            if node is None:
                continue
            status = attempt(plugin, lambda n=node: plugin.filter_node(state, info, n))  # type: ignore[misc]
            if status.rejected:
                codes[position] = status.code
                keys[position] = len(statuses)
                statuses.append(status)
            elif not status.ok:
                raise PluginError(status.by(plugin.name))
        return Verdicts(codes, keys, lambda key: statuses[key].reasons)

    # ---------------------------------------------------------------------------------------- scoring

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> None:
        """Run PreScore on the feasible nodes."""
        state.skip_score = set()
        for plugin in self._pre_score:
            status = attempt(plugin, lambda p=plugin: p.pre_score(state, info, nodes))  # type: ignore[misc]
            if status.code is Code.SKIP:
                state.skip_score.add(plugin.name)
            elif not status.ok:
                raise PluginError(status.by(plugin.name))

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> list[PluginScores]:
        """Run Score, normalise and weigh, for every plugin that did not ask to be skipped."""
        result = []
        for plugin, weight in self._score:
            if plugin.name in state.skip_score:
                continue
            if isinstance(plugin, ScorePlugin):
                scores = attempt(plugin, lambda p=plugin: p.normalize(state, info, p.score(state, info, nodes)))  # type: ignore[misc]
            else:
                scores = attempt(plugin, lambda p=plugin: self._score_each(p, state, info, nodes))  # type: ignore[misc]
            result.append(PluginScores(plugin.name, scores * weight))
        return result

    @staticmethod
    def _score_each(plugin: NodeScorePlugin, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        infos = [nodes.info(position) for position in range(nodes.size)]
        scores = [plugin.score_node(state, info, node) for node in infos if node is not None]
        return np.array(plugin.normalize_scores(state, info, scores), dtype=np.int64)

    @property
    def scores_nothing(self) -> bool:
        return not self._score

    # ---------------------------------------------------------------------------------------- after a node is chosen

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        """Run Reserve in order; the first failure ends it (the caller then runs unreserve)."""
        return self._until_failure(self._reserve, lambda plugin: plugin.reserve(state, info, node))

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> list[Status]:
        """Run Unreserve in reverse order, every one of them; returns what crashed."""
        failures = []
        for plugin in reversed(self._reserve):
            try:
                plugin.unreserve(state, info, node)
            except Exception as exception:
                failures.append(crashed(plugin, exception))
        return failures

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, dict[str, float]]:
        """Run Permit; WAIT comes with the seconds that each waiting plugin grants."""
        waits: dict[str, float] = {}
        for plugin in self._permit:
            try:
                status, timeout = plugin.permit(state, info, node)
            except Exception as exception:
                return crashed(plugin, exception), {}
            if status.code is Code.WAIT:
                waits[plugin.name] = timeout
            elif not status.ok:
                return status.by(plugin.name), {}
        return (Status(Code.WAIT), waits) if waits else (SUCCESS, {})

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        for plugin in self._pre_bind:
            try:
                status = await plugin.pre_bind(state, info, node)
            except Exception as exception:
                return crashed(plugin, exception)
            if not status.ok:
                return status.by(plugin.name)
        return SUCCESS

    async def bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        """The answer of the first bind plugin that does not skip the pod."""
        for plugin in self._bind:
            try:
                status = await plugin.bind(state, info, node)
            except Exception as exception:
                return crashed(plugin, exception)
            if status.code is not Code.SKIP:
                return status.by(plugin.name)
        return error(f"no bind plugin of profile {self.scheduler_name} took the pod")

    def post_bind(self, state: CycleState, info: PodInfo, node: str) -> list[Status]:
        failures = []
        for plugin in self._post_bind:
            try:
                plugin.post_bind(state, info, node)
            except Exception as exception:
                failures.append(crashed(plugin, exception))
        return failures

    @staticmethod
    def _until_failure(plugins: Sequence[P], call: Callable[[P], Status]) -> Status:
        for plugin in plugins:
            try:
                status = call(plugin)
            except Exception as exception:
                return crashed(plugin, exception)
            if not status.ok:
                return status.by(plugin.name)
        return SUCCESS
