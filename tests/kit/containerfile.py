"""Reads a Containerfile and carries out its instructions without a container: the root of each
stage is a folder.

A command runs on this machine. In it, a path below one of the stage's own folders is replaced by
the path in the stage's root. `python3` is the test's Python, except that `pip download` is carried
out by a script of the test.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

OWN_FOLDERS = re.compile(r"(?<![\w./-])/(?=(?:build|opt)\b)")
NAMES = {"ARG", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "LABEL", "RUN", "USER", "WORKDIR"}
COMMAND_SECONDS = 60.0


class Instruction(msgspec.Struct, frozen=True):
    """An instruction. `options` are those that begin with --, such as {"chmod": "755"}."""

    name: str
    options: Mapping[str, str]
    text: str

    def words(self) -> list[str]:
        return shlex.split(self.text)

    def pairs(self) -> dict[str, str]:
        """Returns the names and values of ENV and LABEL."""
        pairs = (word.partition("=") for word in self.words())
        return {name: value for name, _, value in pairs}


def instructions(file: Path) -> list[Instruction]:
    """Raises AssertionError for an instruction that this module does not know."""
    lines = (line for line in file.read_text().splitlines() if not line.lstrip().startswith("#"))
    read = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, rest = line.strip().partition(" ")
        if not name:
            continue
        assert name in NAMES, line
        options = {}
        while name != "RUN" and (match := re.match(r"\s*--([\w-]+)=(\S+)\s+", rest)):
            options[match[1]] = match[2]
            rest = rest[match.end() :]
        read.append(Instruction(name, options, rest.strip()))
    return read


class Stage:
    """A stage of the build. `environment` holds the variables of ENV and ARG."""

    def __init__(self, name: str, root: Path) -> None:
        self.name = name
        self.root = root
        self.workdir = "/"
        self.environment: dict[str, str] = {}
        self.user = ""
        self.entrypoint: list[str] = []
        self.labels: dict[str, str] = {}

    def path(self, inside: str) -> Path:
        """Returns a path of the stage on this machine."""
        absolute = inside if inside.startswith("/") else f"{self.workdir}/{inside}"
        return self.root / absolute.lstrip("/")


class Build:
    """Builds in `folder` from the files of `context`; `python` is the folder of `python3`."""

    def __init__(
        self, context: Path, folder: Path, python: Path, environment: Mapping[str, str]
    ) -> None:
        self._context = context
        self._folder = folder
        self._python = python
        self._environment = environment
        self._arguments: dict[str, str] = {}
        self.stages: list[Stage] = []

    def carry_out(self, instruction: Instruction) -> None:
        """Raises AssertionError, with the output of a command that fails."""
        if instruction.name == "ARG" and not self.stages:
            self._arguments |= instruction.pairs()
            return
        if instruction.name == "FROM":
            base, *name = instruction.words()
            assert base.strip("${}") in self._arguments
            new_stage = Stage(name[-1] if name else "", self._folder / f"stage-{len(self.stages)}")
            new_stage.root.mkdir()
            self.stages.append(new_stage)
            return
        stage = self.stages[-1]
        match instruction.name:
            case "ARG" | "ENV":
                stage.environment |= instruction.pairs()
            case "WORKDIR":
                stage.workdir = instruction.text
                stage.path(".").mkdir(parents=True, exist_ok=True)
            case "COPY":
                self._copy(instruction, stage)
            case "RUN":
                self._run(instruction.text, stage)
            case "USER":
                stage.user = instruction.text
            case "ENTRYPOINT":
                stage.entrypoint = json.loads(instruction.text)
            case "LABEL":
                stage.labels |= instruction.pairs()

    def _copy(self, instruction: Instruction, stage: Stage) -> None:
        *sources, target = instruction.words()
        source_stage = instruction.options.get("from")
        into = stage.path(target)
        for source in sources:
            if source_stage is None:
                path = self._context / source
            else:
                (of,) = (each for each in self.stages if each.name == source_stage)
                path = of.path(source)
            if path.is_dir():
                shutil.copytree(path, into, symlinks=True, dirs_exist_ok=True)
            else:
                file = into / path.name if target.endswith("/") else into
                file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, file)
                if "chmod" in instruction.options:
                    file.chmod(int(instruction.options["chmod"], 8))

    def _run(self, command: str, stage: Stage) -> None:
        done = subprocess.run(
            ["/bin/sh", "-e", "-c", OWN_FOLDERS.sub(f"{stage.root}/", command)],
            cwd=stage.path("."),
            env={
                **self._environment,
                **stage.environment,
                "PATH": f"{self._python}{os.pathsep}{os.environ['PATH']}",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
