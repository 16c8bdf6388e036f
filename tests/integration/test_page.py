"""The page in a real browser: views, sizes, colours, the keyboard, broken connections."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from msgspec import structs
from playwright.async_api import Browser, Page, expect

from berth.actors.attempt.attempts_page import AttemptsPage
from berth.actors.runtime.clock import SystemClock
from berth.actors.server.site import Page as Show
from berth.actors.telemetry.problems import LoggedProblem
from berth.actors.wiring.glance import Glance, QueuedPod, Rejections
from berth.config.feature_gates import DEFAULTS
from berth.config.load import from_mapping
from berth.tools.answers.explain.decision import Decision, NodeVerdict
from berth.tools.answers.feed.feed_source import Source
from berth.tools.answers.feed.story import (
    Happening,
    PastAttempt,
    Reason,
    Story,
    StoryChange,
    StoryCondition,
)
from berth.tools.answers.whatif.verbs import act
from berth.tools.answers.whatif.whatif_endpoint import WhatIfs
from berth.tools.cluster.controllers.embedded_access import EmbeddedAccess
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.demo.page_source import EmbeddedSource
from berth.tools.views.page.page import Acts
from berth.tools.views.page.page_server import serve_page
from tests.kit import documents
from tests.kit.page import FilledSource, node_of, pod_of
from tests.kit.processes import free_port
from tests.kit.programs import needs
from tests.kit.stores import fresh_store

pytestmark = [
    pytest.mark.full("starts a browser"),
    needs("chromium"),
    pytest.mark.asyncio(loop_scope="module"),
]

ZONE = "topology.kubernetes.io/zone"
HOSTILE = '<img src=x onerror="document.title=1">&amp;</b>'
MESSAGE = "0/6 nodes are available: 6 Insufficient cpu."
SENTENCE = "stays pending: of 6 nodes, 6 lack cpu"
GROUND = "() => getComputedStyle(document.documentElement).backgroundColor"
PODS = "/api/v1/namespaces/shop/pods"
RUNNING = documents.pod("web", node="node-1", namespace="shop", terminationGracePeriodSeconds=0)
SIZES = [(360, 740), (1280, 800), (3840, 2160)]


def filled(nodes: int, pods: int) -> FilledSource:
    source = FilledSource(
        *(node_of(f"node-{i}", labels={ZONE: f"zone-{i % 3}"}) for i in range(nodes)),
        *(
            pod_of(f"shop/web-{i}", f"node-{i % nodes}", workload=f"shop/web-{i % 20}")
            for i in range(pods)
        ),
        pod_of("shop/big", message=MESSAGE),
    )
    verdict = NodeVerdict("Unschedulable", "NodeResourcesFit", ["Insufficient cpu"])
    fits = NodeVerdict("Success", "", [])
    decision = Decision(
        filter={f"node-{i}": fits if i < 3 else verdict for i in range(nodes)},
        score={"ImageLocality": {f"node-{i}": i for i in range(3)}},
        total={f"node-{i}": i for i in range(3)},
        best=["node-2"],
        hosts=["node-2"],
    )
    source.stories["shop/big"] = Story(
        "shop/big",
        "",
        "Pending",
        "default-scheduler",
        0,
        "2026-01-01T00:00:00Z",
        {},
        [StoryCondition("PodScheduled", "False", "Unschedulable", MESSAGE, "2026-01-01T00:00:00Z")],
        [Happening("2026-01-01T00:00:00Z", "Warning", "FailedScheduling", MESSAGE, 3)],
        decision,
        attempts=[
            PastAttempt(
                3,
                1767225600.0,
                0.001,
                2.5,
                "unschedulable",
                "unschedulable",
                "NodeAdd (NodeResourcesFit)",
                (),
                [Reason("NodeResourcesFit", ("Insufficient cpu",), nodes)],
                MESSAGE,
                "",
                (),
            )
        ],
        changes=[StoryChange("owner", "Request at most 4 cpu: it fits on node-1.")],
        sentence=SENTENCE,
    )
    queued = QueuedPod("shop/big", "unschedulable", 3, 0, 0.0, ("NodeResourcesFit",))
    rejections = (Rejections("NodeResourcesFit", 1),)
    source.quick = Glance(0, 0, 1, 0, 0, 0, 0, rejections, (queued,), True, (), 0.0)
    return source


async def nothing_recorded(key: str) -> AttemptsPage:
    return AttemptsPage(0.0, None, ())


@asynccontextmanager
async def served(
    source: Source,
    port: int = 0,
    acts: Acts | None = None,
    asks: WhatIfs | None = None,
    does: Show | None = None,
) -> AsyncIterator[str]:
    async with anyio.create_task_group() as group:
        listener = socket.create_server(("127.0.0.1", port))
        yield await group.start(serve_page, source, SystemClock(), listener, (), acts, asks, does)
        group.cancel_scope.cancel()


@asynccontextmanager
async def browsing(browser: Browser, **options: Any) -> AsyncIterator[Page]:
    """Opens a page without the cookies and the cache of others, in which nothing may go wrong."""
    problems: list[str] = []
    async with await browser.new_page(**options) as page:
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text))
        yield page
    assert [text for text in problems if "Failed to load resource" not in text] == []


async def shows_all(page: Page, url: str) -> None:
    """Goes through the views, of which none may be wider than the window."""
    summary = page.locator(".summary")
    await page.goto(f"{url}#/cluster")
    await expect(summary).to_contain_text("nodes", timeout=20_000)
    for view, text in (
        ("#/queue", "NodeResourcesFit"),
        ("#/pod/shop/big", f"It {SENTENCE}."),
        ("#/cluster", "zone"),
    ):
        await page.goto(url + view)
        await expect(page.locator("main")).to_contain_text(text)
        wide = await page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, view


@pytest.mark.parametrize("nodes", [6, 5000])
async def test_each_view_fits_the_window(nodes: int, browser: Browser) -> None:
    async with served(filled(nodes, 10 * nodes)) as url, browsing(browser) as page:
        for width, height in SIZES:
            await page.set_viewport_size({"width": width, "height": height})
            await shows_all(page, url)
            await expect(page.locator(".summary")).to_contain_text(
                f"{nodes:,} nodes · {10 * nodes:,} pods placed", timeout=20_000
            )


async def test_it_follows_the_colours_of_the_system(browser: Browser) -> None:
    grounds = []
    async with served(filled(6, 12)) as url:
        for scheme in ("light", "dark"):
            async with browsing(browser, color_scheme=scheme) as page:
                await shows_all(page, url)
                grounds.append(await page.evaluate(GROUND))
    assert grounds[0] != grounds[1]


async def test_hostile_texts_are_shown_as_they_are(browser: Browser) -> None:
    source = filled(6, 6)
    hostile = f"shop/{HOSTILE}"
    source.put(
        node_of(HOSTILE, labels={ZONE: HOSTILE, HOSTILE: HOSTILE}, taints=(HOSTILE,)),
        pod_of(hostile, HOSTILE, workload=HOSTILE, message=HOSTILE),
        pod_of(f"{hostile}2", message=HOSTILE),
    )
    conditions = [StoryCondition(HOSTILE, HOSTILE, HOSTILE, HOSTILE, "")]
    events = [Happening("", HOSTILE, HOSTILE, HOSTILE, 1)]
    reasons = [Reason(HOSTILE, (HOSTILE,), 1)]
    attempt = PastAttempt(
        1, 0.0, 0.0, 0.0, HOSTILE, HOSTILE, HOSTILE, (), reasons, "", HOSTILE, (HOSTILE,)
    )
    verdict = NodeVerdict(HOSTILE, HOSTILE, [HOSTILE])
    decision = Decision(filter={HOSTILE: verdict}, message=HOSTILE)
    source.stories[hostile] = Story(
        hostile,
        HOSTILE,
        HOSTILE,
        HOSTILE,
        0,
        "",
        {},
        conditions,
        events,
        decision,
        attempts=[attempt],
        changes=[StoryChange(HOSTILE, HOSTILE)],
    )
    async with served(source) as url, browsing(browser) as page:
        await page.goto(f"{url}#/cluster")
        await expect(page.locator(".legend")).to_contain_text(HOSTILE)
        await page.get_by_role("button", name="Table").click()
        await page.get_by_role("rowheader", name=HOSTILE).wait_for()
        await page.locator(".details a", has_text=f"{hostile}2").wait_for()
        await page.goto(f"{url}#/queue")
        await page.goto(f"{url}#/pod/shop/{quote(HOSTILE, safe='')}")
        await expect(page.locator(".pod")).to_contain_text(f"{HOSTILE}: {HOSTILE}")
        assert await page.locator("main img, main script").count() == 0
        assert "1" not in (await page.title()).replace(HOSTILE, "")


async def test_a_pod_s_story_has_its_attempts_and_what_would_change_it(browser: Browser) -> None:
    async with served(filled(6, 6)) as url, browsing(browser) as page:
        await page.goto(f"{url}#/pod/shop/big")
        attempts = page.get_by_role("region", name="Recorded attempts")
        for text in ("2.50 s", "NodeAdd (NodeResourcesFit)", "6 nodes: Insufficient cpu"):
            await expect(attempts).to_contain_text(text)
        changes = page.get_by_role("region", name="What would change it")
        await expect(changes).to_contain_text("Request at most 4 cpu")
        await expect(changes).to_contain_text("the pod's owner")


async def test_the_keyboard_alone_is_enough(browser: Browser) -> None:
    async with served(filled(6, 12)) as url, browsing(browser) as page:
        await page.goto(url)
        await expect(page.locator(".summary")).to_contain_text("6 nodes")
        await page.keyboard.press("Tab")
        await expect(page.locator(".skip")).to_be_focused()
        for _ in range(12):
            await page.keyboard.press("Tab")
            if await page.locator(".map:focus").count():
                break
        live = page.locator("p[aria-live]")
        await expect(live).to_contain_text("node-0, cpu")
        await page.keyboard.press("ArrowRight")
        await expect(live).to_contain_text("node-3, cpu")
        assert await page.locator(".ring:not(.over)").is_visible()
        await page.keyboard.press("Enter")
        await expect(page.locator(".details .pods a").first).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile(r"#/pod/shop/web-\d+$"))
        await expect(page.locator("main")).to_contain_text("There is no such pod.")


async def test_nodes_of_a_toy_cluster_are_changed_with_the_keyboard(browser: Browser) -> None:
    access = EmbeddedAccess(fresh_store())
    for path, document in (
        ("/api/v1/namespaces", {"metadata": {"name": "shop"}}),
        ("/api/v1/nodes", hollow_node(1)),
        ("/api/v1/nodes", hollow_node(2)),
        (PODS, RUNNING),
    ):
        await access.call("POST", path, dict, document)
    source = EmbeddedSource(
        access, FilledSource().glance, nothing_recorded, from_mapping(None), DEFAULTS
    )
    async with served(source, acts=partial(act, access)) as url, browsing(browser) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        await page.goto(url)
        await expect(page.locator(".summary")).to_contain_text("2 nodes · 1 pod placed")
        await page.locator(".map").focus()
        await expect(page.locator(".details h2")).to_have_text("node-1")
        said = page.get_by_role("status")
        for button, text in (
            ("Cordon", "node-1 is cordoned."),
            ("Uncordon", "node-1 takes pods again."),
            ("Drain", "node-1 is cordoned, 1 of its pods are evicted."),
        ):
            await page.get_by_role("button", name=button, exact=True).press("Enter")
            await expect(said).to_have_text(text)
            cordoned = page.locator(".chips", has_text="cordoned")
            await expect(cordoned).to_have_count(0 if button == "Uncordon" else 1)
        await expect(page.locator(".summary")).to_contain_text("2 nodes · 0 pods placed")
        await page.get_by_role("button", name="Delete", exact=True).press("Enter")
        await expect(said).to_have_text("node-1 is deleted.")
        await expect(page.locator(".summary")).to_contain_text("1 node ·")


async def test_the_strip_of_each_view_says_what_is_wrong(browser: Browser) -> None:
    source = filled(6, 6)
    logged = (LoggedProblem(0.0, "warning", "slow"), LoggedProblem(1.0, "error", HOSTILE))
    problems = (f"pods: {HOSTILE}", "nodes: 403")
    wrong = {"leads": False, "problems": problems, "still_seconds": 3.2, "logged": logged}
    outdated = "c.yaml is not in use: paralelism: unknown field"
    source.quick = structs.replace(source.quick, **wrong, outdated=outdated)
    async with served(source) as url, browsing(browser) as page:
        for view in ("#/cluster", "#/queue", "#/pod/shop/big"):
            await page.goto(url + view)
            signs = page.locator("#signs")
            await expect(signs).to_contain_text("standing by")
            await expect(signs).to_contain_text(f"informerspods: {HOSTILE}; nodes: 403")
            await expect(signs).to_contain_text(f"configuration{outdated}")
            await expect(signs).to_contain_text("healthblocked for 3 s")
        log = page.locator("#logged")
        await expect(log.locator("summary")).to_have_text("log 1 error, 1 warning")
        await log.locator("summary").press("Enter")
        await expect(log.get_by_role("listitem").first).to_contain_text(HOSTILE)


async def test_without_acts_there_are_no_buttons(browser: Browser) -> None:
    async with served(filled(6, 6)) as url, browsing(browser) as page:
        await page.goto(url)
        await expect(page.locator(".summary")).to_contain_text("6 nodes")
        await page.locator(".map").focus()
        await expect(page.locator(".details h2")).to_have_text("node-0")
        await expect(page.get_by_role("button", name="Drain")).to_have_count(0)


class SilentSource(FilledSource):
    """A source that says nothing after the rows."""

    async def glance(self) -> Glance:
        await anyio.sleep_forever()
        return self.quick


async def test_five_seconds_of_silence_are_said(browser: Browser) -> None:
    async with served(SilentSource(node_of("node-0"))) as url, browsing(browser) as page:
        await page.goto(url)
        await expect(page.locator(".summary")).to_contain_text("1 node")
        await expect(page.locator("#signs")).to_contain_text("live")
        await page.wait_for_timeout(3000)
        await expect(page.locator("#stale")).to_be_hidden()
        await expect(page.locator("#stale")).to_contain_text("No news for 5 s", timeout=6_000)
        await expect(page.locator("#signs")).to_contain_text("stale")


async def test_it_prints_without_controls_and_without_cut_tables(browser: Browser) -> None:
    async with served(filled(60, 60)) as url, browsing(browser) as page:
        await page.goto(f"{url}#/pod/shop/big")
        scores = page.get_by_role("region", name="Nodes with scores")
        await expect(scores).to_contain_text("node-59")
        await page.emulate_media(media="print")
        await expect(page.get_by_role("button", name="Decide again")).to_be_hidden()
        cut = await scores.evaluate("(element) => element.scrollHeight - element.clientHeight")
        assert cut <= 0


async def test_changes_are_shown_and_a_broken_connection_is_said_and_mended(
    browser: Browser,
) -> None:
    source, port = filled(6, 12), free_port()
    note = "what you see may be out of date"
    async with browsing(browser) as page:
        async with served(source, port) as url:
            await page.goto(url)
            await expect(page.locator(".summary")).to_contain_text("12 pods placed")
            source.put(pod_of("shop/big", "node-1"))
            await expect(page.locator(".summary")).to_contain_text("13 pods placed")
        await expect(page.locator("#stale")).to_contain_text(note)
        await expect(page.locator("#signs")).to_contain_text("connection lost")
        source.put(pod_of("shop/more", "node-1"))
        async with served(source, port):
            await expect(page.locator("#signs")).to_contain_text("live", timeout=20_000)
            await expect(page.locator("#stale")).to_be_hidden()
            await expect(page.locator(".summary")).to_contain_text("14 pods placed")
