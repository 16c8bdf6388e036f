"""The schedulers of these tests run as the shipped service account, with its rights. The tests of a
module share a browser.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from berth.actors import system
from berth.tools.cluster.apiserver.app import Server
from tests.kit.rights import as_service_account, authorized


@pytest.fixture(autouse=True)
def service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "remote", as_service_account)
    monkeypatch.setattr(Server, "answer", authorized)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        yield launched
        await launched.close()
