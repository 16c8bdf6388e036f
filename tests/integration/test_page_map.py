"""The map of the cluster in a real browser: the colours, the legend, the names and the numbers."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.integration.test_page import MESSAGE, SENTENCE, ZONE, browsing, filled, served
from tests.kit.page import FilledSource, node_of, pod_of
from tests.kit.programs import needs

pytestmark = [
    pytest.mark.full("starts a browser"),
    needs("chromium"),
    pytest.mark.asyncio(loop_scope="module"),
]

WRITTEN = """
window.written = new Set();
const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
  window.written.add(text);
  return write.call(this, text, ...place);
};
"""
LEGEND = """() => Object.fromEntries([...document.querySelectorAll(".legend li")]
  .filter((item) => item.textContent.includes("·"))
  .map((item) => [item.textContent.split(" · ")[0], item.querySelector("i").style.background]))"""


def small(*names: str) -> FilledSource:
    pods = (pod_of(f"shop/{name}-0", "node-0", workload=f"shop/{name}") for name in names)
    return FilledSource(node_of("node-0"), *pods)


async def colours(page: Page, url: str) -> dict[str, str]:
    await page.goto(url)
    await expect(page.locator(".legend")).to_contain_text("shop/")
    legend: dict[str, str] = await page.evaluate(LEGEND)
    return legend


async def test_a_workload_has_the_same_colour_whatever_else_there_is(browser: Browser) -> None:
    many = [f"app-{number}" for number in range(9)]
    async with browsing(browser) as page:
        async with served(small(*many)) as url:
            first = await colours(page, url)
        async with served(small("other", *reversed(many[3:]))) as url:
            second = await colours(page, url)
    assert len(set(first.values())) >= 6
    assert {name: second[name] for name in second if name in first} == {
        name: first[name] for name in first if name in second
    }


async def test_the_legend_counts_the_pods_of_the_map(browser: Browser) -> None:
    waiting = [pod_of(f"shop/web-{i}", workload="shop/web", message="no room") for i in range(3)]
    ended: dict[str, Any] = {"phase": "Succeeded", "requests": {}}
    source = FilledSource(
        node_of("node-0"),
        pod_of("shop/web-9", "node-0", workload="shop/web"),
        pod_of("shop/done", "node-0", workload="shop/web", **ended),
        *waiting,
    )
    async with served(source) as url, browsing(browser) as page:
        await page.goto(url)
        await expect(page.locator(".legend")).to_contain_text("shop/web · 1")
        await expect(page.locator(".details")).to_contain_text("3 pods pending")
        source.put(pod_of("shop/late", message="no room"))
        await expect(page.locator("#signs")).to_contain_text("pending4")
        await expect(page.locator(".details")).to_contain_text("4 pods pending")


async def test_pending_pods_beside_the_map_have_their_story_s_sentence(browser: Browser) -> None:
    async with served(filled(6, 6)) as url, browsing(browser) as page:
        await page.goto(url)
        line = page.locator(".details li", has_text="shop/big")
        await expect(line).to_contain_text(f"It {SENTENCE}.")
        await expect(line).not_to_contain_text(MESSAGE)


async def test_shares_are_rounded_down_as_those_of_what_ifs(browser: Browser) -> None:
    requests = {"cpu": 1000, "memory": 1 << 30, "pods": 1}
    pods = pod_of("shop/web", "node-0", requests=requests)
    async with served(FilledSource(node_of("node-0"), pods)) as url, browsing(browser) as page:
        await page.goto(url)
        await expect(page.locator(".summary")).to_contain_text("12 % of cpu")


@pytest.mark.parametrize("width", [360, 1280])
async def test_each_of_a_thousand_nodes_has_its_own_part_of_the_name(
    browser: Browser, width: int
) -> None:
    nodes = (node_of(f"node-{i}", labels={ZONE: f"zone-{i % 3}"}) for i in range(1000))
    viewport: Any = {"width": width, "height": 740}
    async with (
        served(FilledSource(*nodes)) as url,
        browsing(browser, viewport=viewport) as page,
    ):
        await page.add_init_script(WRITTEN)
        await page.goto(url)
        await expect(page.locator(".summary")).to_contain_text("1,000 nodes")
        await page.wait_for_function("() => window.written.has('999') && window.written.has('0')")


async def test_a_long_name_keeps_what_tells_it_from_others(browser: Browser) -> None:
    names = [f"ip-10-0-0-{i}.eu-west-1.compute.internal" for i in range(12)]
    async with (
        served(FilledSource(*map(node_of, names))) as url,
        browsing(browser, viewport={"width": 360, "height": 740}) as page,
    ):
        await page.add_init_script(WRITTEN)
        await page.goto(url)
        await expect(page.locator(".summary")).to_contain_text("12 nodes")
        await page.wait_for_function("() => window.written.has('11') && window.written.has('0')")
