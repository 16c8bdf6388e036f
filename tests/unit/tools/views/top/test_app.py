"""The application on a screen of a test: keys, sizes, hostile names, a connection that breaks."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from berth.actors.wiring.glance import QueuedPod, Rejections
from berth.tools.answers.feed.feed import Frame
from berth.tools.answers.feed.story import Story, StoryChange
from berth.tools.views.top import app
from berth.tools.views.top.app import Top
from berth.tools.views.top.cluster_model import ClusterModel, FeedBegan
from tests.kit.page import QUIET, node_of, pod_of
from tests.kit.top import Filled, screen_of, shows

ZONE = "topology.kubernetes.io/zone"
HOSTILE = "[red]a[/red]\x1b[2J\x9b31m\u202e[link=x]漢字"
SHOWN = "[red]a[/red]\\x1b[2J\\u009b31m\\u202e[link=x]漢字"
MESSAGE = "0/6 nodes are available: 6 Insufficient cpu."
QUEUED = QueuedPod("shop/big", "unschedulable", 3, 0, 0.0, ("NodeResourcesFit",))
GLANCE = msgspec.structs.replace(
    QUIET, parked=1, rejections=(Rejections("NodeResourcesFit", 1),), pods=(QUEUED,)
)


def filled() -> Filled:
    nodes = [node_of(f"node-{number}", labels={ZONE: "zone-a"}) for number in range(1, 31)]
    pods = [pod_of(f"shop/web-{number}", "node-2") for number in range(4)]
    watched = Filled(
        FeedBegan(), Frame(nodes=nodes, pods=[*pods, pod_of("shop/big", message=MESSAGE)]), GLANCE
    )
    told = Story(
        "shop/big",
        "",
        "Pending",
        "s",
        0,
        "",
        {},
        [],
        [],
        changes=[StoryChange("owner", "Request less.")],
    )
    watched.stories["shop/big"] = told
    return watched


@asynccontextmanager
async def looking(
    watched: Filled, size: tuple[int, int] = (80, 24), notes: tuple[str, ...] = ()
) -> AsyncIterator[Pilot[None]]:
    async with Top(watched, ClusterModel(), notes).run_test(size=size) as pilot:
        yield pilot


async def test_keys_lead_to_the_four_views_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "DRAW_SECONDS", 0.05)
    async with looking(filled(), notes=("kubectl --kubeconfig demo",)) as pilot:
        text = await shows(pilot, lambda text: "1-18 of 30" in text)
        assert "kubectl --kubeconfig demo" in text
        assert "30 nodes in 1 zone, 5 pods; requested: cpu 1%, memory 0%" in text
        assert ">node-1 " in text
        await pilot.press("j", "enter")
        text = await shows(pilot, lambda text: "shop/web-3" in text)
        assert "cluster > pods of node-2 4" in text
        assert "requested: cpu 2/8, memory 4Gi/32Gi, pods 4/110" in text
        await pilot.press("escape")
        assert ">node-1 " in await shows(pilot, lambda text: "1-18 of 30" in text)
        await pilot.press("2")
        text = await shows(pilot, lambda text: "held back by: NodeResourcesFit 1" in text)
        assert "parked 1" in text
        await pilot.press("enter")
        await shows(pilot, lambda text: "Request less. (the pod's owner)" in text)
        await pilot.press("3")
        text = await shows(pilot, lambda text: "shop/web-0" in text)
        assert text.index("shop/big") < text.index("shop/web-0")
        assert "WHY IT IS PENDING\n>shop/big" in re.sub(" +\n", "\n", text)
        assert " 6 Insufficient cpu." in text
        await pilot.press("4")
        await shows(pilot, lambda text: "The scheduler leads." in text)
        await pilot.press("question_mark")
        await shows(pilot, lambda text: "health > keys" in text)
        await pilot.press("q")
        assert pilot.app._exit


@pytest.mark.full("long")
async def test_a_filter_leaves_the_rows_that_contain_it_until_escape() -> None:
    async with looking(filled()) as pilot:
        await shows(pilot, lambda text: "leading" in text)
        await pilot.press("slash", *"ODE-3")
        text = await shows(pilot, lambda text: "cluster 2  /ODE-3" in text)
        assert ">node-3 " in text
        assert "node-30 " in text
        await pilot.press("enter", "j", "enter")
        await shows(pilot, lambda text: "pods of node-30" in text)
        await pilot.press("escape", "slash", *"-4", "escape")
        await shows(pilot, lambda text: "1-19 of 30" in text)
        await pilot.press("q")
        assert pilot.app._exit


@pytest.mark.full("long")
async def test_views_have_names_as_in_k9s() -> None:
    async with looking(filled()) as pilot:
        await shows(pilot, lambda text: "leading" in text)
        await pilot.press("slash", *"node-3", "enter", "colon", *"po", "enter")
        await shows(pilot, lambda text: "pods 5" in text)
        await pilot.press("slash", *"web-1", "colon", "backspace", "enter", "colon", *"nonsense")
        await shows(pilot, lambda text: "pods 1  /web-1" in text and "nonsense" in text)
        await pilot.press("enter")
        await shows(pilot, lambda text: "pods 1  /web-1" in text and "nonsense" not in text)
        await pilot.press("colon", *"queue", "escape", "d")
        await shows(pilot, lambda text: "pods > shop/web-1" in text)
        await pilot.press("colon", *"health", "enter")
        await shows(pilot, lambda text: "The scheduler leads." in text)
        await pilot.press("colon", "q", "enter")
        assert pilot.app._exit


@pytest.mark.full("long")
async def test_the_cursor_stays_with_its_row_and_in_sight() -> None:
    watched = filled()
    async with looking(watched) as pilot:
        await shows(pilot, lambda text: "leading" in text)
        await pilot.press("G")
        assert ">node-30 " in await shows(pilot, lambda text: "12-30 of 30" in text)
        watched.put(Frame(nodes=[node_of("node-29b")], gone_nodes=["node-1", "node-2"]))
        assert ">node-30 " in await shows(pilot, lambda text: "11-29 of 29" in text)
        await pilot.press("pageup", "k")
        await shows(pilot, lambda text: ">node-12 " in text)
        await pilot.press("g")
        await shows(pilot, lambda text: ">node-3 " in text)
        watched.put(FeedBegan())
        await shows(pilot, lambda text: "cluster 0" in text)
        await pilot.press("j", "enter", "G")
        await shows(pilot, lambda text: "cluster 0" in text)


@pytest.mark.full("long")
@pytest.mark.parametrize("size", [(80, 24), (40, 12), (300, 60), (10, 5)])
async def test_hostile_names_are_shown_as_they_are_at_any_size(size: tuple[int, int]) -> None:
    glance = msgspec.structs.replace(
        GLANCE,
        problems=(HOSTILE,),
        rejections=(Rejections(HOSTILE, 1),),
        pods=(msgspec.structs.replace(QUEUED, key=HOSTILE, plugins=(HOSTILE,)),),
    )
    node = node_of(HOSTILE, labels={ZONE: HOSTILE}, taints=(HOSTILE,), problems=(HOSTILE,))
    watched = Filled(
        FeedBegan(), Frame(nodes=[node], pods=[pod_of(HOSTILE, HOSTILE, message=HOSTILE)]), glance
    )
    watched.stories[HOSTILE] = Story(HOSTILE, HOSTILE, HOSTILE, HOSTILE, 0, HOSTILE, {}, [], [])
    async with looking(watched, size) as pilot:
        await shows(pilot, lambda text: "cluster 1" in text)
        for keys in ("1", "enter", "enter", "2", "enter", "3", "enter", "4", "question_mark"):
            await pilot.press(keys)
            await pilot.pause(0.05)
            lines = screen_of(pilot)
            assert {cell_len(line) for line in lines} == {size[0]}
            assert len(lines) == size[1]
            assert all(line.isprintable() for line in lines)
            if size[0] == 300 and keys in "134":
                assert SHOWN in "\n".join(lines)


@pytest.mark.full("long")
async def test_the_screen_may_change_its_size() -> None:
    async with looking(filled(), (40, 12)) as pilot:
        await shows(pilot, lambda text: "1-7 of 30" in text)
        await pilot.press("G")
        await shows(pilot, lambda text: "24-30 of 30" in text)
        await pilot.resize_terminal(120, 40)
        text = await shows(pilot, lambda text: "cluster 30" in text)
        assert "TAINTS" in text
        await pilot.resize_terminal(40, 12)
        text = await shows(pilot, lambda text: "24-30 of 30" in text)
        assert ">node-30 " in text


@pytest.mark.full("long")
async def test_a_connection_that_breaks_is_said_and_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "FIRST_PAUSE", 0.1)
    watched = filled()
    async with looking(watched) as pilot:
        await shows(pilot, lambda text: "leading" in text)
        watched.fail("refused")
        await shows(pilot, lambda text: "no connection: refused" in text and "leading" not in text)
        await pilot.press("3", "enter")
        await shows(pilot, lambda text: "The story could not be read: refused" in text)
        watched.fault = ""
        await pilot.press("r")
        await shows(pilot, lambda text: "Request less." in text and "live" in text)
        await pilot.press("4")
        text = await shows(pilot, lambda text: "answers again" in text)
        assert text.index("answers again") < text.index("No connection: refused")


@pytest.mark.full("long")
async def test_a_story_is_told_again_when_its_pod_changes() -> None:
    watched = filled()
    async with looking(watched) as pilot:
        await shows(pilot, lambda text: "leading" in text)
        await pilot.press("2", "enter")
        await shows(pilot, lambda text: "Request less." in text)
        watched.stories["shop/big"] = Story("shop/big", "node-7", "Running", "s", 0, "", {}, [], [])
        watched.put(Frame(pods=[pod_of("shop/big", "node-7")]))
        await shows(pilot, lambda text: "node-7, Running" in text)
        del watched.stories["shop/big"]
        watched.put(Frame(gone_pods=["shop/big"]))
        await pilot.press("r")
        await shows(pilot, lambda text: "There is no such pod now." in text)


@pytest.mark.full("long")
async def test_the_command_ends_if_there_was_never_a_connection() -> None:
    watched = filled()
    watched.fail("refused")
    top = Top(watched, ClusterModel())
    async with top.run_test() as pilot:
        await pilot.pause(0.2)
    assert top.problem == "refused"
