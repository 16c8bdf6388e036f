"""The commands of docs/releasing.md: each is run here, or there is a reason why not."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

PAGE = ROOT / "docs/releasing.md"
VERSION = importlib.metadata.version("berth-scheduler")
BLOCK = re.compile(r"^( *)```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
# A command that begins with this is not run, for this reason.
NOT_RUN = {
    "uv ": "it needs an index of packages",
    "git diff ": "it needs a changed lock",
    "skopeo ": "it needs a registry",
    "export SOURCE_DATE_EPOCH=": "it needs the history of a clone; the test sets a time",
    "python3 -m venv --without-pip build/release": "the test has an environment",
    ".venv/bin/python -m pip download ": "it needs an index of packages",
    ".venv/bin/python -m pip --python build/release ": "it needs what pip has downloaded",
    ".venv/bin/python -m berth.tools.docs.site ": "test_site.py makes the site",
    "pipx ": "pipx is not installed; test_wheel.py installs the wheel with pip",
    "berth demo": "test_wheel.py runs what is installed",
}
COMMANDS = [
    line.strip() for block in BLOCK.finditer(PAGE.read_text()) for line in block[2].splitlines()
]
RUN = [each for each in COMMANDS if not each.startswith(tuple(NOT_RUN))]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the project, with this environment."""
    left_out = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "dist", "build")
    shutil.copytree(ROOT, tmp_path / "clone", ignore=left_out, symlinks=True)
    (tmp_path / "clone/.venv").symlink_to(ROOT / ".venv")
    # The bill is checked by its schema. To parse each address of it as an IRI takes 13 seconds.
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/rfc3987_syntax.py").write_text("raise ImportError")
    return tmp_path / "clone"


def run(command: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-euc", command.replace(" build/release", " .venv")],
        cwd=folder,
        env={
            **os.environ,
            "SOURCE_DATE_EPOCH": "1750000000",
            "PYTHONPATH": str(folder.parent / "modules"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_every_reason_is_that_of_a_command() -> None:
    used = {reason for reason in NOT_RUN for each in COMMANDS if each.startswith(reason)}
    assert used == NOT_RUN.keys()
    assert len(RUN) >= 5


def test_each_place_has_the_version_of_the_package() -> None:
    places = run(next(each for each in RUN if each.startswith("grep ")), ROOT).split()
    assert {*places} >= {
        "pyproject.toml",
        "config/deploy/apiserver/pyproject.toml",
        "config/deploy/base/deployment.yaml",
        "config/deploy/chart/Chart.yaml",
        "config/deploy/image/Containerfile",
        "config/deploy/shadow/deployment.yaml",
    }
    chart = (ROOT / "config/deploy/chart/Chart.yaml").read_text()
    assert re.findall(r"^(?:v|appV)ersion: (.*)$", chart, re.MULTILINE) == [VERSION, VERSION]


@pytest.mark.full
def test_a_release_is_built_and_a_second_build_is_equal(clone: Path) -> None:
    for command in RUN:
        run(command, clone)
    made = {path.name for path in (clone / "dist").iterdir()}
    assert made == {
        "SHA256SUMS",
        f"berth-{VERSION}.tgz",
        "berth-scheduler.cdx.json",
        f"berth_apiserver-{VERSION}-py3-none-any.whl",
        f"berth_scheduler-{VERSION}-py3-none-any.whl",
        f"berth_scheduler-{VERSION}.tar.gz",
    }
    bill = json.loads((clone / "dist/berth-scheduler.cdx.json").read_text())
    assert bill["metadata"]["component"]["name"] == "berth-scheduler"
    names = {each["name"] for each in bill["components"]}
    assert {"aiohttp", "msgspec", "numpy", "uvloop"} <= names
    first = sums(clone / "dist")
    run(next(each for each in RUN if "hatchling" in each), clone)
    assert sums(clone / "dist") == first


def sums(folder: Path) -> list[str]:
    """Returns the sums of the wheel and the source distribution of berth."""
    files = sorted(folder.glob("berth_scheduler-*"))
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
