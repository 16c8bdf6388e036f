"""The pages of `berth debug` as text."""

from __future__ import annotations

from io import StringIO

import msgspec
import pytest
from rich.console import Console

from berth.actors.messages.cache import NodeDump
from berth.actors.messages.queue import Place, QueuedPodDump, StoryStep
from berth.actors.scheduling.framework.breaker import Breaker, BreakerLimits
from berth.actors.server.debug import CachePage, PluginsPage, PodPage, QueuePage
from berth.tools.answers.debug.debug_report import show_pod, show_section

STORY = (
    StoryStep(0.0, Place.ACTIVE, "UnschedulablePodAdd"),
    StoryStep(1.0, Place.BACKOFF, "AssignedPodDelete", "NodeResourcesFit"),
)
QUEUED = QueuedPodDump(
    "shop/web-7d4b9c8f6d-x2x4z",
    "uid",
    Place.UNSCHEDULABLE,
    0,
    3,
    1.5,
    ("NodeResourcesFit", "PodTopologySpread"),
    (),
    "",
    False,
    STORY,
)
NODE = NodeDump(
    "pool-1-worker-12",
    False,
    {"cpu": 100, "memory": 2**30},
    {"cpu": 4000, "memory": 2**34, "pods": 110},
    (),
    ("shop/web-7d4b9c8f6d-x2x4z",),
)
WORDS = (
    "shop/web-7d4b9c8f6d-x2x4z",
    "unschedulable",
    "NodeResourcesFit, PodTopologySpread",
    "AssignedPodDelete",
)


def console(width: int) -> Console:
    return Console(width=width, file=StringIO())


def printed(used: Console) -> str:
    assert isinstance(used.file, StringIO)
    return used.file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_word_is_cut_at_any_width(width: int) -> None:
    used = console(width)
    show_section(QueuePage((QUEUED,)), used)
    show_section(CachePage((NODE,)), used)
    show_pod(QUEUED.key, PodPage(QUEUED, None, STORY), used)
    for word in (*WORDS, "pool-1-worker-12", "UnschedulablePodAdd"):
        assert all(part in printed(used) for part in word.split()), (word, printed(used))


def test_a_plugin_has_its_package_and_version() -> None:
    dump = Breaker("Price", "default-scheduler", BreakerLimits(), lambda: 0.0, print).dump(0.0)
    priced = msgspec.structs.replace(dump, package="prices", version="1.1.0")
    used = console(200)
    show_section(PluginsPage((priced,)), used)
    assert "│ Price  │ prices 1.1.0 │" in printed(used)


def test_a_table_without_room_for_its_words_is_a_list() -> None:
    narrow, wide = console(80), console(200)
    for used in (narrow, wide):
        show_section(QueuePage((QUEUED,)), used)
    assert printed(narrow).startswith(
        "1 pod in the queue\n\n"
        "pod: shop/web-7d4b9c8f6d-x2x4z\n"
        "place: unschedulable\n"
        "priority: 0\n"
        "attempts: 3\n"
        "backoff left: 1.5s\n"
        "rejected by: NodeResourcesFit, PodTopologySpread\n"
        "last moved by: AssignedPodDelete, by NodeResourcesFit ("
    )
    assert "│" in printed(wide)
