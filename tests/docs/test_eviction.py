"""Runs the commands about API-initiated eviction, one after another, in a toy cluster."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.docs.blocks import ROOT, exchanges, of_section, write_files
from tests.kit.kubectl import SKEW, Daemon, Kubectl

EVICTION = ROOT / "docs/eviction.md"
SECONDS = 60.0

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        shutil.which("kubectl") is None or shutil.which("curl") is None,
        reason="kubectl and curl are not on the PATH",
    ),
]


@pytest.fixture
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder = tmp_path_factory.mktemp("eviction")
    write_files(EVICTION, folder)
    daemon = Daemon(folder, "demo", "--keep", "--nodes", "3", "-f", str(folder / "zk.yaml"))
    yield daemon.kubectl
    assert daemon.end() == 0


def output(kubectl: Kubectl, command: str) -> str:
    """Returns what a shell prints, without spaces at the ends of lines."""
    done = subprocess.run(
        command,
        shell=True,
        cwd=kubectl.folder,
        env=kubectl.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    lines = SKEW.sub("", done.stdout).splitlines()
    kept = [line.rstrip() for line in lines if not line.startswith(("Warning:", "Waiting for"))]
    return "".join(f"{line}\n" for line in kept)


def shown(printed: str) -> re.Pattern[str]:
    """Returns the pattern of an output; an ellipsis stands for any part of a line."""
    return re.compile(re.escape(printed).replace("…", ".*"))


def test_the_commands_print_what_the_page_shows(kubectl: Kubectl) -> None:
    for block in of_section(EVICTION, "API-initiated eviction"):
        for command, printed in exchanges(block):
            end = time.monotonic() + SECONDS
            got = output(kubectl, command)
            # the controllers take a moment to reach what a look shows
            while command.startswith("kubectl get") and not shown(printed).fullmatch(got):
                assert time.monotonic() < end, f"{block}: {command}: {got}"
                got = output(kubectl, command)
            assert shown(printed).fullmatch(got), f"{block}: {command}\n{got}"
