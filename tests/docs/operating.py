"""The logs that the page on operating shows, written by schedulers in virtual time."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from berth.actors.client.rest import ApiError
from berth.actors.telemetry.logs import configure_logs
from berth.config.options import LoggingOptions
from tests.docs.blocks import ROOT
from tests.kit.daemon import Daemon, daemon

OPERATING = ROOT / "docs/operating.md"
HEAD = re.compile(r"^([IWEF])\d{4} \d\d:\d\d:\d\d\.\d{6} [ \d]{7} (\w+\.py):\d+\]", re.MULTILINE)
SECONDS = re.compile(r"seconds=[\d.]+")
FORBIDDEN = 'is forbidden: User "berth" cannot list resource'


@contextmanager
def writing(path: Path, form: str, verbosity: int) -> Iterator[None]:
    """Writes the log of this process to a file."""
    before, sys.stderr = sys.stderr, io.StringIO()
    try:
        configure_logs(LoggingOptions(form, verbosity))
        yield
        path.write_text(sys.stderr.getvalue())
    finally:
        sys.stderr = before


async def write_logs(folder: Path) -> None:
    """Writes berth.log, berth.json and rights.log."""
    for name, form in (("berth.log", "text"), ("berth.json", "json")):
        with writing(folder / name, form, 4):
            async with daemon(existing=_refusing("/api/v1/services")) as running:
                running.put_node("small", "500m")
                running.put_pod("web", "1")
                await running.advance(2)
                running.put_node("large", "4")
                await running.advance(2)
    refusing = _refusing("/api/v1/services", "/apis/policy/v1/poddisruptionbudgets")
    with writing(folder / "rights.log", "text", 0):
        async with daemon(existing=refusing) as running:
            await running.advance(3)
            refusing.api.refusals.clear()
            await running.advance(120)


def _refusing(*paths: str) -> Daemon:
    running = Daemon()
    for path in paths:
        message = f"{path.rpartition('/')[2]} {FORBIDDEN}"
        running.api.refusals[path] = ApiError(403, "Forbidden", message)
    return running


def printed(command: str, folder: Path) -> str:
    """Returns the output of a command in the folder with the logs."""
    shell = subprocess.run(
        ["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False, timeout=20
    )
    return shell.stdout + shell.stderr


def settled(text: str) -> str:
    """Returns the text without what is different in every run."""
    return SECONDS.sub("seconds=0.004", HEAD.sub(r"\g<1>1122 10:27:41.995337      18 \2:40]", text))
