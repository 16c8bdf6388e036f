"""What a command says when its standard output cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")
SAMPLE = Path(__file__).resolve().parents[4] / "tools/testing/demo/sample.yaml"
QUICK = ["version"], ["version", "-o", "json"], ["--version"], ["run", "--version"], ["--help"]
LONG = (
    ["explain", "-f", str(SAMPLE), "deployment/web"],
    ["explain", "-f", str(SAMPLE), "deployment/web", "-o", "json"],
    ["explain", "-f", str(SAMPLE), "-A"],
    ["whatif", "-f", str(SAMPLE)],
    ["whatif", "serve", "-f", str(SAMPLE), "--port=0"],
    ["apiserver"],
    ["demo"],
    ["demo", "-o", "json"],
)


def ended(arguments: list[str], output: int, *, buffered: bool) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    return subprocess.run(
        [sys.executable, "-m", "berth.actors", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )


def last_line_on_a_full_disk(arguments: list[str], *, buffered: bool = True) -> str:
    """Returns the last line of a command that fails on a full disk, without a traceback."""
    with FULL.open("wb", buffering=0) as full:
        process = ended(arguments, full.fileno(), buffered=buffered)
    assert process.returncode == 1, process.stderr
    assert "Traceback" not in process.stderr
    assert "Exception" not in process.stderr
    return process.stderr.splitlines()[-1]


on_full = pytest.mark.skipif(not FULL.exists(), reason="there is no such device here")


@on_full
@pytest.mark.full("starts processes")
@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("arguments", QUICK)
def test_a_full_disk_is_told_once(arguments: list[str], *, buffered: bool) -> None:
    said = last_line_on_a_full_disk(arguments, buffered=buffered)
    assert said == "Error: standard output: No space left on device"


@on_full
@pytest.mark.full("starts processes")
@pytest.mark.parametrize("arguments", LONG, ids=" ".join)
def test_a_full_disk_is_not_blamed_on_the_cluster(arguments: list[str]) -> None:
    said = last_line_on_a_full_disk(arguments)
    assert said == "Error: standard output: No space left on device"


@pytest.mark.full("starts processes")
@pytest.mark.parametrize("arguments", [["version"], *LONG[:4]], ids=" ".join)
def test_nothing_is_said_when_the_reader_has_left(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        process = ended(arguments, writing, buffered=True)
    finally:
        os.close(writing)
    assert (process.returncode, process.stderr) == (1, "")


@pytest.mark.full("starts processes")
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    missing = tmp_path / "missing.jsonl"
    process = ended(["explain", "--scenario", str(missing)], subprocess.DEVNULL, buffered=True)
    expected = f"Error: {missing}: cannot be read: No such file or directory\n"
    assert (process.returncode, process.stderr) == (1, expected)
