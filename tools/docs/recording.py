"""Makes the recording of `berth top` in docs/ from a running demo: an SVG that plays by itself.

.venv/bin/python -m berth.tools.docs.recording
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from html import unescape
from pathlib import Path

import anyio
from textual.pilot import Pilot

from ..views.top.app import Top
from ..views.top.cluster_model import ClusterModel
from ..views.top.feed_client import Page

FILE = Path(__file__).resolve().parents[2] / "docs/top.svg"
SIZE = (80, 24)
SECONDS = 2.5  # of a frame
SETTLED = "13 placed"
TOO_LARGE = """
apiVersion: v1
kind: Pod
metadata: {name: analytics, namespace: default}
spec:
  containers: [{name: analytics, image: python, resources: {requests: {cpu: "20", memory: 8Gi}}}]
"""
# The keys before each frame, and the text that is there once all is shown.
STEPS = (
    ("", "1 pending"),
    ("j j j", ">node-3"),
    ("enter", "pods of node-3"),
    ("escape 2", "parked 1"),
    ("enter", "Lower the cpu request"),
    ("3", ">default/analytics"),
    ("4", "The scheduler leads"),
)
_FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)


def main() -> None:
    sample = Path(__file__).parents[1] / "testing/demo/sample.yaml"
    demo = [str(Path(sys.executable).with_name("berth")), "demo", "--keep", "-f", "-", "-f"]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(
        [*demo, str(sample)], stdin=pipe, stdout=null, stderr=pipe, text=True
    ) as running:
        try:
            assert running.stdin is not None
            assert running.stderr is not None
            running.stdin.write(TOO_LARGE)
            running.stdin.close()
            url = next(line.split()[-1] for line in running.stderr if line.startswith("page at"))
            FILE.write_text(played(anyio.run(frames, url)), encoding="utf-8")
        finally:
            running.terminate()


async def frames(url: str) -> list[str]:
    """Returns the contents of the terminal after each step."""
    top = Top(Page(url), ClusterModel())
    screenshots = []
    async with top.run_test(size=SIZE) as pilot:
        await shows(pilot, SETTLED)
        await shows(pilot, " 0/s")
        for keys, text in STEPS:
            await pilot.press(*keys.split())
            await shows(pilot, text)
            screenshots.append(top.export_screenshot(title="berth top", simplify=True))
    return screenshots


async def shows(pilot: Pilot[None], text: str) -> None:
    """Waits until a text is on the screen."""
    with anyio.fail_after(30):
        while text not in unescape(pilot.app.export_screenshot(simplify=True)).replace("\xa0", " "):
            await pilot.pause(0.1)


def played(frames: Sequence[str]) -> str:
    """Returns an SVG that shows one frame after another, without end. For readers who want less
    motion, it shows only the first.

    It loads no fonts over the network.
    """
    whole = SECONDS * len(frames)
    style = (
        ".later { visibility: hidden; animation: frame "
        f"{whole:g}s step-end infinite }}\n"
        f"@keyframes frame {{ 0% {{ visibility: visible }} "
        f"{100 / len(frames):.3f}% {{ visibility: hidden }} }}\n"
        "@media (prefers-reduced-motion) { .later { animation: none } }"
    )
    first, *others = (_FONTS.sub("", frame) for frame in frames)
    later = (
        f'<g class="later" style="animation-delay: {SECONDS * number:g}s">{frame}</g>'
        for number, frame in enumerate(others, 1)
    )
    end = first.rindex("</svg>")
    return "".join([first[:end], f"<style>{style}</style>", *later, "</svg>\n"])


if __name__ == "__main__":
    main()
