"""Which plugins are asked about an event: those that registered for it, and for changes of taints
also those that registered for new nodes.
"""

from __future__ import annotations

from berth.actors.messages.queue import ClusterChanged
from berth.actors.queue.entry import Entry
from berth.actors.queue.hints import HintTable, Worth
from berth.actors.scheduling.framework.events import (
    Action,
    ClusterEvent,
    Hint,
    Registration,
    Resource,
)
from berth.actors.scheduling.kube.core import Node
from berth.actors.scheduling.model.pod_info import PodInfo
from tests.kit.hints import pod

RETAINTED = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)
RELABELLED = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)


def skips(action: Action, resource: Resource = Resource.NODE) -> Registration:
    return Registration(ClusterEvent(resource, action), lambda *_: Hint.SKIP)


def test_a_change_of_taints_wakes_pods_of_plugins_that_wait_for_new_nodes() -> None:
    table = HintTable(
        {
            "s": {
                "Added": (
                    skips(Action.ADD | Action.UPDATE_NODE_LABEL),
                    skips(Action.DELETE, Resource.POD),
                ),
                "Both": (skips(Action.ADD | Action.UPDATE_NODE_TAINT),),
                "Apart": (skips(Action.ADD), skips(Action.UPDATE)),
                "Gone": (skips(Action.DELETE),),
                "OtherAdded": (skips(Action.ADD, Resource.NAMESPACE),),
            }
        }
    )

    def worth(plugin: str, event: ClusterEvent) -> Worth | None:
        entry = Entry(PodInfo(pod(schedulerName="s")), 0.0, 0)
        entry.unschedulable = frozenset((plugin,))
        return table.judge(entry, ClusterChanged(event, Node(), Node()))

    assert worth("Added", RETAINTED) == Worth("NodeUpdateNodeTaint", "Added")
    assert worth("Added", RELABELLED) is None
    assert [worth(plugin, RETAINTED) for plugin in ("Both", "Apart", "Gone", "OtherAdded")] == [
        None
    ] * 4
