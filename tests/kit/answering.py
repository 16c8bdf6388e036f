"""A plugin for each extension point, which answers there as a test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from berth.actors.scheduling.decision.profile import Profile
from berth.plugin import (
    PAUSE,
    SUCCESS,
    BindPlugin,
    CycleState,
    DependsOn,
    FailedAttempt,
    FilterPlugin,
    NodeFilterPlugin,
    NodeInfo,
    NodeScorePlugin,
    NodeView,
    PermitPlugin,
    Plugin,
    Pod,
    PodInfo,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreparingPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    Snapshot,
    Status,
    unschedulable,
)
from tests.kit.profiles import APART, profile_of


class Answering(Plugin):
    """Calls `does` at its extension point, and answers what that returns."""

    name = "Wrong"
    does: ClassVar[Callable[..., Any]]


class PreEnqueue(Answering, PreEnqueuePlugin):
    def pre_enqueue(self, pod: Pod) -> Any:
        return self.does()


class QueueSort(Answering, QueueSortPlugin):
    def sort_key(self, info: PodInfo, enqueued_at: float) -> Any:
        return self.does()


class PreparesFor(Answering, PreparingPlugin):
    def prepares_for(self, info: PodInfo) -> Any:
        return self.does()

    def prepare(self, info: PodInfo, snapshot: Snapshot) -> Any:
        raise AssertionError

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Any:
        return SUCCESS


class Preparing(PreparesFor):
    def prepares_for(self, info: PodInfo) -> bool:
        return True

    def prepare(self, info: PodInfo, snapshot: Snapshot) -> Any:
        yield PAUSE
        return self.does()


class PreFilter(Answering, PreFilterPlugin):
    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Any:
        return self.does()


class Filter(Answering, NodeFilterPlugin):
    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Any:
        return self.does()


class VectorFilter(Answering, FilterPlugin):
    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Any:
        return self.does()


class PostFilter(Answering, NodeFilterPlugin, PostFilterPlugin):
    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        return unschedulable("full")

    def post_filter(self, attempt: FailedAttempt) -> Any:
        return self.does()


class Asking(PostFilter):
    def post_filter(self, attempt: FailedAttempt) -> Any:
        yield self.does()


class PreScore(Answering, PreScorePlugin, NodeScorePlugin):
    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Any:
        return self.does()

    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        return 0


class Score(Answering, NodeScorePlugin):
    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Any:
        return self.does()


class VectorScore(Answering, ScorePlugin):
    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Any:
        return self.does()


class Normalize(Answering, NodeScorePlugin):
    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Any:
        return 1

    def normalize_scores(self, state: CycleState, info: PodInfo, scores: list[int]) -> Any:
        return self.does()


class Reserve(Answering, ReservePlugin):
    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Any:
        return self.does()

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        self.does()


class Permit(Answering, PermitPlugin):
    def permit(self, state: CycleState, info: PodInfo, node: str) -> Any:
        return self.does()


class PreFlight(Answering, PreBindPlugin):
    def pre_bind_pre_flight(self, state: CycleState, info: PodInfo, node: str) -> Any:
        return self.does()

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        return SUCCESS


class PreBind(Answering, PreBindPlugin):
    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Any:
        return self.does()


class Bind(Answering, BindPlugin, PostBindPlugin):
    async def bind(self, state: CycleState, info: PodInfo, node: str) -> Any:
        return self.does()

    def post_bind(self, state: CycleState, info: PodInfo, node: str) -> None:
        self.does()


class Registers(Answering, PostBindPlugin):
    def post_bind(self, state: CycleState, info: PodInfo, node: str) -> None: ...

    def events_to_register(self) -> Any:
        return self.does()


def doing(kind: type[Answering], does: Callable[[], Any], **fields: Any) -> type[Answering]:
    """Returns such a plugin; `fields` are others of its class."""
    return type("Doing", (kind,), {"does": staticmethod(does), **fields})


def profile_with(
    kind: type[Answering], does: Callable[[], Any], depends_on: DependsOn = DependsOn.CLUSTER
) -> Profile:
    """Returns the default profile with such a plugin, which is the only one where there may be
    one.
    """
    alone = {QueueSortPlugin: "PrioritySort", BindPlugin: "DefaultBinder"}
    replaced = [name for point, name in alone.items() if issubclass(kind, point)]
    return profile_of(doing(kind, does, depends_on=depends_on), disabled=[*APART, *replaced])
