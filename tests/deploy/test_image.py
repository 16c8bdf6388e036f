"""The Containerfile: what linters look for, and what its instructions make when they are carried
out one after the other.
"""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs.blocks import blocks
from tests.kit.containerfile import Build, Instruction, Stage, instructions
from tests.kit.processes import ROOT
from tests.kit.programs import needs

IMAGE = ROOT / "config/deploy/image"
CONTAINERFILE = IMAGE / "Containerfile"
DOWNLOAD = ["-m", "pip", "download"]
LOCKED = re.compile(r"^([\w.-]+)==", re.MULTILINE)
# Requirements of the package itself, or of those that it requires.
RUNTIME = {"aiohttp", "anyio", "click", "cryptography", "msgspec", "numpy", "uvloop", "multidict"}
QUIET = """from berth.plugin import NodeScorePlugin

class Quiet(NodeScorePlugin):
    name = "Quiet"

    def score_node(self, state, info, node):
        return max(100 - len(node.pods), 0)
"""
COMMAND = "from berth.actors.cli import main; main()"
ENABLED = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Quiet}]}}
"""
DEVELOPMENT = {"hatchling", "hypothesis", "mypy", "pytest", "ruff", "opentelemetry-sdk"}


def named(name: str) -> list[Instruction]:
    return [each for each in instructions(CONTAINERFILE) if each.name == name]


@pytest.mark.full
@needs("hadolint")
def test_hadolint_finds_nothing() -> None:
    done = subprocess.run(
        ["hadolint", CONTAINERFILE], capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_base_has_a_version_and_a_digest() -> None:
    arguments = named("ARG")[0].pairs()
    digest = r"@sha256:[0-9a-f]{64}"
    assert re.fullmatch(rf"docker\.io/library/python:3\.\d+-slim{digest}", arguments["PYTHON"])
    assert all(each.text.startswith("${PYTHON}") for each in named("FROM"))


def test_nothing_is_installed_that_the_lock_does_not_name() -> None:
    commands = [text for each in named("RUN") for text in each.text.split(" && ")]
    pip = [text for text in commands if "pip" in text.split()]
    (download,) = (text for text in pip if " pip download " in text)
    assert {"--require-hashes", "--no-deps"} <= set(download.split())
    offline = {"--no-index", "--no-build-isolation"}
    assert all(offline & set(text.split()) for text in pip if text != download)


def test_the_version_is_that_of_the_package() -> None:
    (label,) = named("LABEL")
    assert label.pairs()["org.opencontainers.image.version"] == importlib.metadata.version(
        "berth-scheduler"
    )


def test_the_ignored_files_are_none_that_are_copied() -> None:
    lines = (IMAGE / "Containerfile.dockerignore").read_text().splitlines()
    kept = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {
        source.split("/")[0]
        for each in named("COPY")
        if "from" not in each.options
        for source in each.words()[:-1]
    }
    assert copied == kept
    assert lines.index("*") < min(lines.index(f"!{name}") for name in kept)


# ------------------------------------------------------------------------------------- carrying out


def dependencies(folder: Path) -> Path:
    """Returns a folder from which everything but berth can be imported."""
    folder.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "berth" not in path.name:
            (folder / path.name).symlink_to(path)
    return folder


def write_wheels(lock: Path, folder: Path) -> None:
    """Writes a wheel for each distribution of the lock that is installed here: its metadata, which
    say what it requires, and no module.
    """
    folder.mkdir(parents=True)
    for name in LOCKED.findall(lock.read_text()):
        try:
            package = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for other platforms or versions of Python
        stem = f"{name.replace('-', '_')}-{package.version}"
        with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{stem}.dist-info/METADATA", package.read_text("METADATA") or "")
            wheel.writestr(
                f"{stem}.dist-info/WHEEL",
                "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            )
            wheel.writestr(f"{stem}.dist-info/RECORD", "")


def python_without_index(folder: Path) -> Path:
    """Returns a folder with a `python3` that calls write_wheels for `pip download`."""
    folder.mkdir()
    script = folder / "python3"
    script.write_text(
        f'#!/bin/sh\nif [ "$1 $2 $3" = "{" ".join(DOWNLOAD)}" ]; then\n'
        f'  exec env PYTHONPATH={ROOT} {sys.executable} -m {__name__} "$@"\nfi\n'
        f'exec {sys.executable} "$@"\n'
    )
    script.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """The last stage, built from the whole file."""
    folder = tmp_path_factory.mktemp("image")
    environment = {"PIP_NO_COMPILE": "1", "HOME": str(folder)}
    build = Build(ROOT, folder, python_without_index(folder / "python"), environment)
    for instruction in instructions(CONTAINERFILE):
        build.carry_out(instruction)
    return build.stages[-1]


@pytest.mark.full
def test_it_runs_without_root_a_shell_or_the_sources(image: Stage) -> None:
    user, _, group = image.user.partition(":")
    assert int(user) > 0
    assert int(group) > 0
    assert image.entrypoint == ["kube-scheduler"]  # no shell in between
    assert {path.name for path in image.root.iterdir()} == {"opt"}
    assert image.environment["PATH"].split(":")[0] == "/opt/berth/bin"


@pytest.mark.full
def test_only_what_the_package_requires_is_installed(image: Stage) -> None:
    (site,) = image.path("/opt/berth/lib").glob("python3*/site-packages")
    names = {
        package.metadata["Name"].lower()
        for package in importlib.metadata.distributions(path=[str(site)])
    }
    assert names >= RUNTIME | {"berth-scheduler"}
    assert not names & DEVELOPMENT


@pytest.mark.full
def test_kube_scheduler_is_berth_run(image: Stage, tmp_path: Path) -> None:
    before = sorted(image.root.rglob("*"))
    modules = dependencies(tmp_path / "modules")
    done = subprocess.run(
        [image.path("/opt/berth/bin/kube-scheduler"), "--help"],
        cwd="/",
        env={**image.environment, "PYTHONPATH": str(modules)},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert "kube-scheduler" in done.stdout
    assert "--authentication-kubeconfig" in done.stdout
    assert sorted(image.root.rglob("*")) == before, "it writes into the image"


@pytest.mark.full
def test_an_image_made_from_it_has_the_plugins_of_the_page(image: Stage, tmp_path: Path) -> None:
    (page,) = blocks(ROOT / "docs/deploying.md", "dockerfile")
    first, copy = page.text.splitlines()
    assert first.startswith("FROM registry.example/berth:")
    source, target = copy.removeprefix("COPY ").split()
    package = image.path(target)
    assert source == package.name
    metadata = package / "quiet-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    try:
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: quiet\nVersion: 0.1.0\n")
        (metadata / "entry_points.txt").write_text("[berth.plugins]\nQuiet = quiet:Quiet\n")
        (package / "quiet.py").write_text(QUIET)
        config = tmp_path / "scheduler.yaml"
        config.write_text(ENABLED)
        modules = dependencies(tmp_path / "modules")
        done = subprocess.run(
            # the script names the Python of the stage in which it was made
            [image.path("/opt/berth/bin/python3"), "-c", COMMAND, "config", "check", config],
            cwd="/",
            env={**image.environment, "PYTHONPATH": str(modules)},
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    finally:
        shutil.rmtree(package)
    assert done.returncode == 0, done.stdout + done.stderr


def main(arguments: list[str]) -> None:
    """`pip download`, as python_without_index calls it."""
    options = dict(pairwise(arguments))
    write_wheels(Path(options["--requirement"]), Path(options["--dest"]))


if __name__ == "__main__":
    main(sys.argv[1:])
