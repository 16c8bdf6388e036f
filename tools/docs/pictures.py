"""Makes the pictures of the page in docs/ from a running demo, with Debian's chromium.

.venv/bin/python tools/docs/pictures.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
MAP = "[role=application]"
# The address of each picture, its size, the text that is there once all is shown, and the keys that
# are pressed on the map then.
PICTURES = {
    "page-cluster": ("cluster", 1200, 620, "13 pods placed", ("End",)),
    "page-whatif": (
        "whatif/add%201%20like%20node-1/scale%20deployment%2Fweb%2012",
        1200,
        960,
        "nodes change.",
        (),
    ),
    "page-pod": ("pod/default/checkout", 1200, 1000, "scores are weighed", ()),
}


def main() -> None:
    demo = [str(Path(sys.executable).with_name("berth")), "demo", "--keep"]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with (
        subprocess.Popen(demo, stdout=null, stderr=pipe, text=True) as running,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        try:
            assert running.stderr is not None
            url = next(line.split()[-1] for line in running.stderr if line.startswith("page at"))
            for name, (view, width, height, text, keys) in PICTURES.items():
                file = ROOT / f"docs/{name}.png"
                take(browser, f"{url}#/{view}", (width, height), text, keys, file)
        finally:
            running.terminate()
            browser.close()


def take(
    browser: Browser, url: str, size: tuple[int, int], text: str, keys: tuple[str, ...], file: Path
) -> None:
    """Writes a picture of the page at an address, as a browser shows it, once the text is there and
    the rate has ended.
    """
    page = browser.new_page(viewport={"width": size[0], "height": size[1]})
    page.goto(url)
    page.get_by_text(text).wait_for()
    page.locator("#signs", has_text="rate0/s").wait_for()
    for key in keys:
        page.locator(MAP).press(key)
    page.screenshot(path=file)
    page.close()


if __name__ == "__main__":
    main()
