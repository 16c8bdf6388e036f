"""Short stories of seeds: the properties are exercised, as a scheduler or a server that breaks one
is found among a few hundred of them. That the API server binds a pod once is hardly ever needed, as
no scheduler asks for it twice: a server that binds again is found by schedulers that need no lease.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from berth.actors.cache.state import CacheState
from berth.actors.client.tenure import Tenure
from berth.actors.messages.cache import AssignedPodDeleted, Assume
from berth.actors.messages.queue import ClusterChanged
from berth.actors.messages.recorder import SetNominatedNode, SetUnschedulable
from berth.actors.queue.state import QueueState
from berth.actors.recorder.state import RecorderState
from berth.actors.scheduling.framework.events import Action, Resource
from berth.actors.scheduling.plugins.dynamic_resources.held_devices import HeldDevices
from berth.tools.kubernetes.api.writes import registry
from berth.tools.kubernetes.api.writes.pod_binding import bound_pod
from berth.tools.testing.simulation.short_stories import drawn_short
from berth.tools.testing.simulation.simulation import play

pytestmark = pytest.mark.full("long")

Mutate = Callable[[pytest.MonkeyPatch], None]
MOST_SEEDS = 300


def deaf(state: type, message: Any, about: Callable[[Any], bool] = lambda _: True) -> Mutate:
    """Returns a change by which a state ignores such messages."""
    handle = state.handle  # type: ignore[attr-defined]

    def ignoring(self: Any, news: Any, *times: Any) -> Any:
        ignored = isinstance(news, message) and about(news)
        return () if ignored else handle(self, news, *times)

    return lambda patch: patch.setattr(state, "handle", ignoring)


def _frees_room(change: ClusterChanged) -> bool:
    return change.event.resource is Resource.ASSIGNED_POD and Action.DELETE in change.event.action


def _ends_nomination(order: SetUnschedulable | SetNominatedNode) -> bool:
    return order.nominated_node == ""


def forgets_when_asked_for_permission(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registry, "take_permission", lambda _store, _pod: "nobody asked")


def writes_without_the_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tenure, "permits", lambda _tenure: True)


def binds_again_without_the_lease(patch: pytest.MonkeyPatch) -> None:

    def bound_again(bound: dict[str, Any], *more: Any) -> dict[str, Any]:
        spec = {field: value for field, value in bound["spec"].items() if field != "nodeName"}
        return bound_pod({**bound, "spec": spec}, *more)

    patch.setattr(registry, "bound_pod", bound_again)
    writes_without_the_lease(patch)


def takes_devices_of_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HeldDevices, "_hold", lambda *_: None)


def without(plugin: str) -> dict[str, Any]:
    return {"profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": plugin}]}}}]}


@pytest.mark.parametrize(
    ("broken", "first", "mutate", "config"),
    [
        ("bound twice", 118, binds_again_without_the_lease, {}),
        ("overcommitted", 1, deaf(CacheState, Assume), {}),
        ("device twice", 56, takes_devices_of_others, {}),
        ("volume twice", 33, None, without("VolumeRestrictions")),
        ("budget broken", 6, forgets_when_asked_for_permission, {}),
        ("without lease", 40, writes_without_the_lease, {}),
        ("forgotten", 2, deaf(QueueState, ClusterChanged, _frees_room), {}),
        (
            "nomination kept",
            17,
            deaf(RecorderState, SetNominatedNode | SetUnschedulable, _ends_nomination),
            {},
        ),
        ("memory kept", 2, deaf(CacheState, AssignedPodDeleted), {}),
    ],
)
def test_a_mutant_is_found(
    broken: str,
    first: int,
    mutate: Mutate | None,
    config: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From seed 1 on, the seed `first` was the first to find it."""
    if mutate is not None:
        mutate(monkeypatch)
    for seed in range(first, first + MOST_SEEDS):
        scenario = msgspec.structs.replace(drawn_short(seed), config=config)
        try:
            found = play(scenario).broken
        except BaseExceptionGroup:  # a part of the cluster does not survive the mutant
            continue
        if broken in found:
            return
    raise AssertionError(f"{broken} was not found by {MOST_SEEDS} seeds")
