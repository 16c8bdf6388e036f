"""The examples of the page about clients and operators pass, with the packages of the registry."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, write_files
from tests.kit.programs import needs

PAGE = ROOT / "docs/testing-clients.md"


def passes(folder: Path, *names: str) -> None:
    """Asserts that these examples pass, in one process."""
    write_files(PAGE, folder)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    files = [f"test_{name}.py" for name in names]
    done = subprocess.run(
        (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files),
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(files)} passed" in done.stdout


@pytest.mark.full("waits")
def test_a_client_or_an_operator_is_tested(tmp_path: Path) -> None:
    passes(tmp_path, "official", "kubernetes_asyncio", "lightkube", "kr8s", "kopf")


@needs("kubectl")
@pytest.mark.full("asks another program")
def test_kubectl_is_tested(tmp_path: Path) -> None:
    passes(tmp_path, "kubectl")
