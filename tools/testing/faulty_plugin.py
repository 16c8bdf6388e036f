"""A plugin that does nothing but meet faults, at every extension point."""

from __future__ import annotations

import asyncio
import time
from contextvars import ContextVar
from typing import Any

import numpy as np

from berth.plugin import (
    SUCCESS,
    CycleState,
    FailedAttempt,
    FilterPlugin,
    Ints,
    NodeView,
    PermitPlugin,
    Pod,
    PodInfo,
    PostBindPlugin,
    PostFiltered,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
    Snapshot,
    Status,
    Verdicts,
    unschedulable,
)

from ..cluster.faults.faults_in_force import Faults
from .virtual_time import VirtualLoop

# The faults of the scheduler that makes the plugin; a plugin made elsewhere meets none.
IN_FORCE: ContextVar[Faults | None] = ContextVar("faults of plugins", default=None)


class FaultyPlugin(
    PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, PostFilterPlugin, PreScorePlugin, ScorePlugin,
    ReservePlugin, PermitPlugin, PreBindPlugin, PostBindPlugin,
):  # fmt: skip
    name = "FaultyPlugin"

    def __init__(self, args: dict[str, Any], handle: Any) -> None:
        super().__init__(args, handle)
        self._faults = IN_FORCE.get()

    def _meet(self, point: str) -> None:
        fault = None if self._faults is None else self._faults.of_point(point)
        if fault is None:
            return
        if fault.does == "plugin-raise":
            raise RuntimeError(f"a fault at {point}")
        loop = asyncio.get_running_loop()
        if isinstance(loop, VirtualLoop):
            loop.stand_still(fault.seconds)
        else:
            time.sleep(fault.seconds)

    def pre_enqueue(self, pod: Pod) -> Status:
        self._meet("PreEnqueue")
        return SUCCESS

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Status:
        self._meet("PreFilter")
        return SUCCESS

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        self._meet("Filter")
        return None

    def post_filter(self, attempt: FailedAttempt) -> PostFiltered:
        self._meet("PostFilter")
        return PostFiltered(unschedulable("it makes no room"))

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        self._meet("PreScore")
        return SUCCESS

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        self._meet("Score")
        return np.zeros(nodes.size, dtype=np.int64)

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        self._meet("Reserve")
        return SUCCESS

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        return

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        self._meet("Permit")
        return SUCCESS, 0.0

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        self._meet("PreBind")
        return SUCCESS

    def post_bind(self, state: CycleState, info: PodInfo, node: str) -> None:
        self._meet("PostBind")
