"""The lives of plugins in explanations: a start, one call of what is repeated, and an end."""

from __future__ import annotations

import gc
from typing import ClassVar

from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.config.feature_gates import DEFAULTS
from berth.plugin import CycleState, NodeInfo, NodeScorePlugin, PluginScope, PodInfo
from berth.testing import decide, node, pod
from berth.tools.answers.explain.decider import Explainer
from berth.tools.testing.configuration import configuration_of, with_plugins


class Preferring(NodeScorePlugin):
    """A plugin that asks which node is best when it starts, and again from time to time."""

    name = "Preferring"
    best = ""
    told: ClassVar[list[str]] = []

    async def start(self, scope: PluginScope) -> None:
        self.told.append("start")
        await scope.sleep(0)
        scope.every(15, self.ask)
        scope.every(15, self.lead, leading=True)

    async def ask(self) -> None:
        self.told.append("ask")
        self.best = "b"

    async def lead(self) -> None:
        self.told.append("lead")

    async def close(self) -> None:
        self.told.append("close")

    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        return 100 * (node.name == self.best)


def test_a_plugin_is_started_before_the_decision() -> None:
    Preferring.told.clear()
    nodes = [node(name, cpu=8) for name in "abc"]
    for _ in range(2):
        assert decide(pod("p", cpu=1), nodes, plugins=[Preferring]).node == "b"
    assert Preferring.told == ["start", "ask", "ask"]


async def test_also_where_a_loop_runs() -> None:
    Preferring.told.clear()
    configuration = with_plugins(configuration_of(None, DEFAULTS), [Preferring], {})
    explainer = Explainer(configuration, others=[Preferring])
    explainer.cluster([])
    del explainer
    gc.collect()
    assert Preferring.told == ["start", "ask", "close"]
    assert "Preferring" not in IN_TREE
