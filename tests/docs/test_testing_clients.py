"""The examples of the page about clients and operators pass, with the packages of the registry."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, write_files
from tests.kit.programs import needs

PAGE = ROOT / "docs/testing-clients.md"
CLIENTS = ("official", "kubernetes_asyncio", "lightkube", "kr8s", "kopf")


def passes(name: str, folder: Path) -> None:
    """Asserts that an example passes in a process of its own, since clients keep state."""
    write_files(PAGE, folder)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"test_{name}.py")
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.full("processes")
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_or_an_operator_is_tested(name: str, tmp_path: Path) -> None:
    passes(name, tmp_path)


@needs("kubectl")
@pytest.mark.full("asks another program")
def test_kubectl_is_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    passes("kubectl", tmp_path)
