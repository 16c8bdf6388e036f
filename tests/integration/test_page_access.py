"""The page for everybody: axe-core finds nothing serious, light or dark, wide or narrow.

axe-core is not part of the repository: npm fetches it. Without npm or a registry the tests are
skipped.
"""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from playwright.async_api import Browser, expect

from berth.tools.answers.explain.cause import Cause
from berth.tools.answers.whatif.conclusion import (
    Kept,
    Pending,
    RefusedEviction,
    Result,
    Returned,
    WithoutPods,
)
from berth.tools.answers.whatif.node_usage import Fullness, NodeChange
from berth.tools.answers.whatif.placement import Deleted, Evicted, Lost, Placed
from berth.tools.answers.whatif.question import Answered
from berth.tools.answers.whatif.verbs import OFFERED
from berth.tools.answers.whatif.whatif_endpoint import WhatIfs
from tests.integration.test_page import MESSAGE, browsing, filled, served
from tests.kit.programs import needs

pytestmark = [
    pytest.mark.full("starts a browser"),
    needs("chromium"),
    needs("npm"),
    pytest.mark.asyncio(loop_scope="module"),
]

PACKAGE = "axe-core@4.10.3"
VIEWS = {
    "#/cluster": "6 nodes",
    "#/queue": "NodeResourcesFit",
    "#/pod/shop/big": MESSAGE,
    "#/whatif/drain%20node-0/weight%20ImageLocality%205": "Nodes that change",
}
RUN = "() => axe.run(document, { resultTypes: ['violations'] })"


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Returns the source of axe-core."""
    folder: Path = tmp_path_factory.mktemp("axe")
    command = ["npm", "pack", "--silent", "--fetch-retries=0", PACKAGE]
    packed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if packed.returncode:
        pytest.skip(f"npm cannot fetch {PACKAGE}: {packed.stderr[:200]}")
    with tarfile.open(folder / packed.stdout.strip()) as archive:
        source = archive.extractfile("package/axe.min.js")
        assert source is not None
        return source.read().decode()


DRAINED = Cause("NodeDrained", "node-0 is drained", node="node-0")
WEIGHTS = {"default-scheduler": {"ImageLocality": 1, "NodeAffinity": 2}}


class Canned:
    """The same answer for each question."""

    async def ask(self, question: bytes) -> Answered:
        half, empty = Fullness(50, 50, 2), Fullness(0, 0, 0)
        steady = [NodeChange(f"node-{number}", half, half) for number in range(2, 6)]
        nodes = [NodeChange("node-0", half, empty), NodeChange("node-1", half, half), *steady]
        result = Result(
            "1 pod is newly pending: 1 placed, 1 evicted, 1 deleted",
            True,
            False,
            [Placed("shop/a", "ReplicaSet shop/web", "node-1", 1)],
            [Pending("ReplicaSet shop/web", ["shop/b"], MESSAGE, False, [])],
            [Lost("shop/alone", "node-0", "node-0 is drained", 1, DRAINED)],
            [Evicted("shop/web-0", "node-0", "node-0 is drained", "shop/a", 1, DRAINED, "node-1")],
            [Deleted("shop/web-9", "ReplicaSet shop/web", "node-1", 1)],
            nodes,
            [Kept("shop/web-6", "node-0", ["web"])],
            [Returned("shop/agent-1", "node-0")],
            [],
            [WithoutPods("Deployment shop/idle", 2, "shop/idle-new-1", "")],
            [],
            [RefusedEviction("shop/db-0", "node-1", ["db"], 1, DRAINED)],
        )
        return Answered(200, msgspec.Raw(msgspec.json.encode(result)))


async def nothing(verb: str, node: str) -> str:
    return "nothing is done"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
async def test_axe_finds_nothing_serious(
    axe: str, scheme: Literal["light", "dark"], width: int, browser: Browser
) -> None:
    viewport = {"width": width, "height": 800}
    async with (
        served(filled(6, 12), acts=nothing, asks=WhatIfs(Canned(), WEIGHTS, OFFERED)) as url,
        browsing(browser, viewport=viewport, color_scheme=scheme) as page,
    ):
        for view, text in VIEWS.items():
            await page.goto(url + view)
            await expect(page.locator("main")).to_contain_text(text)
            if view == "#/cluster":
                await page.locator(".map").focus()
                await page.evaluate(axe)
            result: dict[str, Any] = await page.evaluate(RUN)
            violations = result["violations"]
            serious = [
                (violation["id"], violation["nodes"][0]["html"])
                for violation in violations
                if violation["impact"] in ("serious", "critical")
            ]
            assert serious == [], view
