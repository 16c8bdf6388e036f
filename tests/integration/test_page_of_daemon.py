"""The page of a running scheduler in a real browser: with its rights, without them, and after the
scheduler has started anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.integration.test_serving import delegating
from tests.kit.daemon import daemon
from tests.kit.programs import needs
from tests.kit.reviewer import Reviewer
from tests.kit.serving import url_of

pytestmark = [
    pytest.mark.full("starts a browser"),
    needs("chromium"),
    pytest.mark.asyncio(loop_scope="module"),
]

FILES = Path(__file__).parents[2] / "tools/views/page/static"
POD = "pods/default/p"


async def test_it_shows_the_scheduler_to_those_who_may(tmp_path: Path, browser: Browser) -> None:
    reviewer = Reviewer()
    reviewer.add("viewer", "viewer")
    reviewer.add("other", "other")
    below = ("", "feed", "offers", POD, *(path.name for path in FILES.iterdir()))
    reviewer.rights |= {("viewer", f"/ui/{path}") for path in below}
    async with delegating(tmp_path, reviewer) as options:
        url = f"{url_of(options)}/ui/"
        context = await browser.new_context(ignore_https_errors=True)
        page = await context.new_page()
        signs, summary = page.locator("#signs"), page.locator(".summary")
        async with daemon(options=options) as running:
            running.put_node("node-1")
            running.put_pod("p")
            await running.advance(2)
            for token, status in (("wrong", 401), ("other", 403)):
                await context.set_extra_http_headers({"Authorization": f"Bearer {token}"})
                answer = await page.goto(url)
                assert answer is not None
                assert answer.status == status
            await context.set_extra_http_headers({"Authorization": "Bearer viewer"})
            await page.goto(url)
            await expect(summary).to_contain_text("1 node · 1 pod placed")
            await expect(signs).to_contain_text("leaseleading")
            await expect(page.get_by_role("link", name="What if")).to_be_hidden()
            await page.locator(".map").focus()
            await expect(page.locator(".details h2")).to_have_text("node-1")
            await expect(page.get_by_role("button", name="Drain")).to_have_count(0)
            await expect(page.locator(".links")).to_be_hidden()
            await page.get_by_role("link", name="default/p").click()
            attempts = page.get_by_role("region", name="Recorded attempts")
            await expect(attempts).to_contain_text("chose node-1")
            await expect(page.locator("main")).to_contain_text("berth explain default/p")
            await expect(page.get_by_role("button", name="Load again")).to_be_enabled()
            await page.goto(f"{url}#/cluster")
        await expect(signs).to_contain_text("connection lost")
        async with daemon(options=options) as running:
            running.put_node("node-2")
            running.put_node("node-3")
            await running.advance(2)
            await expect(summary).to_contain_text("2 nodes · 0 pods placed", timeout=20_000)
            await expect(signs).to_contain_text("live")
        await context.close()
