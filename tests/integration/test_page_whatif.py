"""What-ifs on the page of a toy cluster, in a real browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, Page, expect

from berth.config.feature_gates import DEFAULTS
from berth.config.load import from_mapping
from berth.tools.answers.whatif.verbs import OFFERED, act
from berth.tools.answers.whatif.weights import weights_of
from berth.tools.answers.whatif.whatif_endpoint import WhatIfs
from berth.tools.cluster.controllers.embedded_access import EmbeddedAccess
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.demo.page_source import EmbeddedSource
from berth.tools.testing.demo.whatif_answers import ListedCluster, RealSteps
from tests.integration.test_page import (
    GROUND,
    HOSTILE,
    PODS,
    browsing,
    nothing_recorded,
    served,
)
from tests.kit import documents
from tests.kit.page import FilledSource
from tests.kit.programs import needs
from tests.kit.stores import fresh_store

pytestmark = [
    pytest.mark.full("starts a browser"),
    needs("chromium"),
    pytest.mark.asyncio(loop_scope="module"),
]

CONTROLLER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "web",
    "uid": "web",
    "controller": True,
}
RUNNING = documents.pod(
    "web-1",
    "2",
    "node-1",
    namespace="shop",
    requests={"memory": "1Gi"},
    ownerReferences=[CONTROLLER],
    terminationGracePeriodSeconds=0,
)
MISTYPED = f"""apiVersion: v1
kind: Pod
metadata: {{name: '{HOSTILE}'}}
spec: {{containers: [{{name: c, img: nginx}}]}}
"""
NEW = """apiVersion: v1
kind: Pod
metadata: {name: pasted}
spec: {containers: [{name: c, image: nginx}]}
"""


@asynccontextmanager
async def toy() -> AsyncIterator[str]:
    """Serves the page of a toy cluster of three nodes, with one pod."""
    access, configuration = EmbeddedAccess(fresh_store()), from_mapping(None)
    for path, document in (
        ("/api/v1/namespaces", {"metadata": {"name": "shop"}}),
        ("/api/v1/namespaces", {"metadata": {"name": "default"}}),
        *(("/api/v1/nodes", hollow_node(number)) for number in (1, 2, 3)),
        (PODS, RUNNING),
    ):
        await access.call("POST", path, dict, document)
    source = EmbeddedSource(
        access, FilledSource().glance, nothing_recorded, configuration, DEFAULTS
    )
    asks = WhatIfs(
        ListedCluster(access, configuration, DEFAULTS),
        weights_of(configuration, DEFAULTS),
        OFFERED,
    )
    acts, does = partial(act, access), RealSteps(access).respond
    async with served(source, acts=acts, asks=asks, does=does) as url:
        yield url


async def fits(page: Page) -> None:
    wide = await page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0


async def asks_with_the_keyboard(page: Page, url: str) -> None:
    """Asks for a drain, adds a step and a weight, and drains for real."""
    said = page.get_by_role("status").and_(page.locator(".hint"))
    await page.goto(f"{url}#/cluster")
    await page.locator(".map").focus()
    await page.get_by_role("link", name="drained").press("Enter")
    await expect(said).to_have_text("All pods have a node: 1 placed, 1 evicted.")
    moved = page.get_by_role("region", name="Moved or evicted")
    await expect(moved).to_contain_text("shop/web-1-new-1")
    await expect(moved).to_contain_text("node-1 is drained")
    await expect(page.locator("figcaption").last).to_have_text("2 nodes change.")
    changed = page.get_by_role("region", name="Nodes that change")
    await expect(changed.get_by_role("row", name="node-1")).to_contain_text("25 → 0")

    await page.get_by_role("combobox", name="Step").focus()
    await page.keyboard.type("add")
    await page.keyboard.press("Tab")
    await page.keyboard.type("2")
    await page.keyboard.press("Tab")
    await page.keyboard.type("node-3")
    await page.keyboard.press("Enter")
    await expect(page.locator(".steps li")).to_have_count(2)
    await page.get_by_role("button", name="Ask").press("Enter")
    await expect(changed).to_contain_text("node-3-copy-2")

    await page.get_by_text("Weights of the score plugins").press("Enter")
    slider = page.get_by_label("Weight of ImageLocality, slider")
    await slider.press("ArrowRight")
    await expect(page.locator(".steps li").first).to_contain_text("weight ImageLocality 2")
    await expect(page.get_by_label("Weight of ImageLocality", exact=True)).to_have_value("2")
    await expect(said).to_have_text("All pods have a node: 1 placed, 1 evicted.")
    real = page.get_by_role("button", name="Do it for real")
    await expect(real).to_be_disabled()
    await slider.press("ArrowLeft")
    await expect(page.locator(".steps li")).to_have_count(2)
    await page.reload()  # The address has the steps.
    await expect(changed).to_contain_text("node-3-copy-2")

    page.on("dialog", lambda dialog: dialog.accept())
    await real.press("Enter")
    await expect(said).to_have_text(
        "node-1 is cordoned, 1 of its pods are evicted. 2 nodes like node-3 are added."
    )
    await expect(page.locator("#signs")).to_contain_text("placed0")
    await page.goto(f"{url}#/cluster")
    await expect(page.locator(".summary")).to_contain_text("5 nodes")


async def says_what_is_wrong(page: Page, url: str) -> None:
    """Opens a link to a node that does not exist, and pastes a wrong manifest, then a right one."""
    await page.set_viewport_size({"width": 360, "height": 740})
    await page.emulate_media(color_scheme="dark")
    await page.goto(f"{url}#/whatif/drain%20{quote(repr(HOSTILE), safe='')}")
    wrong = page.get_by_role("alert")
    await expect(wrong).to_contain_text(f"Step 1: Node {HOSTILE} does not exist")
    await expect(page.locator(".steps li.bad")).to_contain_text(HOSTILE)
    await page.get_by_role("button", name="Clear").click()
    await expect(wrong).to_be_hidden()

    await page.get_by_role("combobox", name="Step").select_option("apply")
    await page.get_by_role("textbox", name="Manifests").fill(MISTYPED)
    await page.get_by_role("button", name="Add step").click()
    await page.get_by_role("button", name="Ask").click()
    await expect(wrong).to_contain_text(f"Pod {HOSTILE}: unknown field")
    await expect(wrong).to_contain_text('"spec.containers[0].img"')
    await fits(page)
    await page.get_by_role("button", name="Edit step 1").click()
    await expect(page.get_by_role("textbox", name="Manifests")).to_have_value(MISTYPED)
    await page.get_by_role("textbox", name="Manifests").fill(NEW)
    await page.get_by_role("button", name="Add step").click()
    await page.get_by_role("button", name="Ask").click()
    placed = page.get_by_role("region", name="Placed")
    await expect(placed).to_contain_text("default/pasted")
    await page.get_by_role("combobox", name="Step").select_option("delete")
    await page.get_by_role("combobox", name="Pod").fill("default/pasted")
    await page.get_by_role("button", name="Add step").click()
    await page.get_by_role("button", name="Ask").click()
    deleted = page.get_by_role("region", name="Deleted")
    await expect(deleted).to_contain_text("default/pasted")
    await fits(page)
    assert await page.locator("main img, main script").count() == 0
    assert await page.evaluate(GROUND) == "rgb(18, 22, 28)"


async def test_what_ifs_are_asked_in_a_browser(browser: Browser) -> None:
    async with toy() as url, browsing(browser) as page:
        await says_what_is_wrong(page, url)
        await page.set_viewport_size({"width": 1280, "height": 800})
        await asks_with_the_keyboard(page, url)
