"""A shadow of a scheduler that decides as berth does finds no difference if bindings overtake each
other, and judging leaves its state as it was.
"""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import (
    AssignedPodAdded,
    AssignedPodDeleted,
    NodeAdded,
)
from berth.actors.messages.queue import PendingPodAdded, PodNoLongerPending
from berth.actors.scheduling.decision.outcome import Choice
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.reading import Reader
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.wiring.profiles import profiles_of
from berth.config.load import from_mapping
from berth.tools.answers.explain.plugin_handle import ReadOnlyHandle
from berth.tools.answers.shadow.placement_judge import Agreement
from berth.tools.answers.shadow.shadow_state import MOMENT, Placement, ShadowState
from tests.kit.daemon import node, pod
from tests.kit.examples import examples

PROFILES = profiles_of(from_mapping(None), ReadOnlyHandle())
CPUS = ("100m", "500m", "1")
STEP = MOMENT / 4


@examples(0.3)
@given(
    st.lists(st.sampled_from(("2", "4", "8")), min_size=2, max_size=5),
    st.lists(st.tuples(st.sampled_from(CPUS), st.integers(0, 2), st.booleans()), max_size=12),
    st.integers(0, 1000),
)
def test_no_difference(sizes: list[str], pods: list[tuple[str, int, bool]], seed: int) -> None:
    """Each pod has its cpu, how many steps its binding takes, and whether it is deleted at the end
    of the step in which it is bound.
    """
    real, shadow, scheduler = CacheState(), ShadowState(PROFILES), Scheduler(Random(seed))
    for number, cpu in enumerate(sizes):
        added = NodeAdded(Reader(Node).convert(node(f"n{number}", cpu)))
        real.handle(added)
        shadow.take(added, 0.0)
    shadow.begin()
    now, bound, on_the_way = 0.0, 0, []
    judged: list[Placement] = []
    for number, (cpu, steps, leaves) in enumerate([*pods, *[("8", 0, False)] * 12]):
        now += STEP
        judged += shadow.due(now)
        pending = Reader(Pod).convert(pod(f"p{number}", cpu))
        outcome = scheduler.schedule(
            PROFILES["default-scheduler"], PodInfo(pending), real.snapshot()
        )
        if isinstance(outcome, Choice):
            placed = Reader(Pod).convert(pod(f"p{number}", cpu, nodeName=outcome.node))
            real.handle(AssignedPodAdded(placed))
            shadow.take(PendingPodAdded(pending), now)
            on_the_way.append((now + steps * STEP, number, pending, placed, leaves))
        for arrival in sorted(each for each in on_the_way if each[0] <= now):
            on_the_way.remove(arrival)
            *_, pending, placed, leaves = arrival
            shadow.take(AssignedPodAdded(placed), now)
            shadow.take(PodNoLongerPending(pending), now)
            bound += 1
            if leaves:
                shadow.take(AssignedPodDeleted(placed), now)
                real.handle(AssignedPodDeleted(placed))
    judged += shadow.due(now + 2 * MOMENT)
    assert len(judged) == bound
    assert all(placement.agreement is not Agreement.DIFFERENT for placement in judged)
    shadow._cache.validate()
    assert shadow._cache._node_of == real._node_of
