"""The lives of plugins in explanations: a start, one call of what is repeated, and an end."""

from __future__ import annotations

import asyncio
import gc
from typing import ClassVar

import msgspec

from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.config.feature_gates import DEFAULTS
from berth.plugin import (
    CycleState,
    Node,
    NodeInfo,
    NodeScorePlugin,
    NotFound,
    ObjectMeta,
    PluginScope,
    PodInfo,
    Status,
    WatchedKind,
)
from berth.testing import decide, node, pod
from berth.tools.answers.explain.decider import Explainer
from berth.tools.testing.configuration import configuration_of, with_plugins
from tests.kit.logs import capture_logs


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


class Waiting(Preferring):
    """A plugin with a task that waits, and takes a while to end."""

    name = "Waiting"

    async def start(self, scope: PluginScope) -> None:
        scope.run(self.wait)

    async def wait(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            self.told.append("ended")


def test_the_end_of_a_task_is_waited_for_and_is_no_failure() -> None:
    Waiting.told.clear()
    configuration = with_plugins(configuration_of(None, DEFAULTS), [Waiting], {})
    explainer = Explainer(configuration, others=[Waiting])
    explainer.cluster([])
    with capture_logs() as lines:
        del explainer
        gc.collect()
    assert Waiting.told == ["ended", "close"]
    assert lines == []


class Asking(NodeScorePlugin):
    """A plugin that reads and writes by the API when it starts."""

    name = "Asking"
    told: ClassVar[list[object]] = []

    async def start(self, scope: PluginScope) -> None:
        api = self.handle.api
        nodes = await api.list(Node, labels={"a": "b"})
        assert not isinstance(nodes, Status)
        self.told.append([each.metadata.name for each in nodes])
        self.told.append(await api.get(Node, "none"))
        self.told.append(await api.patch(Node, "n", {"metadata": {}}))
        self.told.append(await api.list(WatchedKind("x/v1", "X", "/apis/x/v1/xs", Other)))
        self.handle.event(nodes[0], "Seen", "it")
        self.handle.activate("default/p")

    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        return 0


class Other(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


def test_the_api_reads_what_is_there_and_writes_nothing() -> None:
    Asking.told.clear()
    nodes = [node("n", labels={"a": "b"}), node("m")]
    assert decide(pod("p", cpu=1), nodes, plugins=[Asking]).node
    names, missing, written, other = Asking.told
    assert names == ["n"]
    assert isinstance(missing, NotFound)
    assert isinstance(written, Status)
    assert written.message == "nothing is written here"
    assert isinstance(other, Status)
    assert other.message == "nothing is requested here"
