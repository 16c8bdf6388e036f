"""`--reload` takes the changed file of a plugin into use, and keeps the old one if it fails."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from berth.actors.configuration.file import file_or_default
from berth.actors.configuration.plugin_files import offering
from berth.actors.scheduling.decision.registry import RegistryError
from berth.actors.scheduling.framework.measuring import UNMEASURED
from berth.actors.wiring.plugin_reloader import LOOK_SECONDS, PluginReloader
from berth.actors.wiring.profiles import ProfilesInUse
from tests.kit.clock import VirtualClock
from tests.kit.handle import NoApi
from tests.kit.logs import capture_logs
from tests.kit.tasks import started

SOUND = """
from berth.plugin import NodeScorePlugin


class Sound(NodeScorePlugin):
    name = "Sound"
    answer = {}

    def score_node(self, state, info, node):
        return self.answer
"""


async def test_a_changed_file_is_in_use_after_the_next_look(tmp_path: Path) -> None:
    file = tmp_path / "sound.py"
    file.write_text(SOUND.format(1))
    clock = VirtualClock()
    with offering([f"{file}:Sound"]), capture_logs() as lines:
        in_use = ProfilesInUse(file_or_default(None), NoApi(), lambda _: UNMEASURED)
        problems: list[str] = []

        async def swap() -> None:
            if problems:
                raise RegistryError(problems.pop())
            in_use.replace(in_use.configuration, in_use.make(in_use.configuration))

        def answer() -> object:
            (plugin,) = [each for each in in_use.plugins() if each.name == "Sound"]
            return vars(type(plugin))["answer"]

        async with started(PluginReloader(swap, clock).run):
            profile = in_use.by_name["default-scheduler"]
            await clock.advance(LOOK_SECONDS)
            assert in_use.by_name["default-scheduler"] is profile
            file.write_text(SOUND.format(2))
            await clock.advance(LOOK_SECONDS)
            assert answer() == 2
            file.write_text("import no_such_module")
            await clock.advance(LOOK_SECONDS)
            file.unlink()  # as an editor does for a moment
            await clock.advance(LOOK_SECONDS)
            problems.append("plugin Sound cannot be made")
            file.write_text(SOUND.format(3))
            await clock.advance(LOOK_SECONDS)
            assert answer() == 2
            file.write_text(SOUND.format(4))
            await clock.advance(LOOK_SECONDS)
            assert answer() == 4
    told = [(line["event"], line.get("error", "")) for line in lines]
    assert told == [
        ("plugin reloaded", ""),
        (
            "plugin not reloaded",
            f"{file}:1: cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("plugin not reloaded", "plugin Sound cannot be made"),
        ("plugin reloaded", ""),
    ]


HELPED = """
from berth.plugin import NodeScorePlugin
{imports}


class {name}(NodeScorePlugin):
    name = "{name}"
    answer = ANSWER

    def score_node(self, state, info, node):
        return self.answer
"""


@pytest.fixture
def _modules() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith(("plugin_file_", "helper", "kept")):
            del sys.modules[name]


@pytest.mark.usefixtures("_modules")
@pytest.mark.parametrize("package", [False, True])
async def test_what_the_files_import_from_beside_them_is_followed_too(
    tmp_path: Path, package: bool
) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    imports = "from helper import ANSWER"
    if package:
        (folder / "__init__.py").touch()
        imports = "from .helper import ANSWER"
    for name in ("One", "Two"):
        (folder / f"{name.lower()}.py").write_text(HELPED.format(name=name, imports=imports))
    helper = folder / "helper.py"
    helper.write_text("ANSWER = 1")
    clock = VirtualClock()
    texts = [f"{folder}/{name.lower()}.py:{name}" for name in ("One", "Two")]
    with offering(texts), capture_logs() as lines:
        in_use = ProfilesInUse(file_or_default(None), NoApi(), lambda _: UNMEASURED)

        async def swap() -> None:
            in_use.replace(in_use.configuration, in_use.make(in_use.configuration))

        def answers() -> list[object]:
            ours = [each for each in in_use.plugins() if each.name in ("One", "Two")]
            return [vars(type(plugin))["answer"] for plugin in ours]

        reloader = PluginReloader(swap, clock)
        async with started(reloader.run):
            await clock.advance(LOOK_SECONDS)
            helper.write_text("ANSWER = 2")
            await clock.advance(LOOK_SECONDS)
            assert answers() == [2, 2]
            helper.write_text("ANSWER = ")
            await clock.advance(3 * LOOK_SECONDS)
            assert answers() == [2, 2]
            assert "invalid syntax" in reloader.problem
            helper.write_text("ANSWER = 3")
            await clock.advance(LOOK_SECONDS)
            assert (answers(), reloader.problem) == ([3, 3], "")
    assert [line["event"] for line in lines] == [
        *["plugin reloaded"] * 2,
        *["plugin not reloaded"] * 2,
        *["plugin reloaded"] * 2,
    ]


@asynccontextmanager
async def following(folder: Path) -> AsyncIterator[tuple[PluginReloader, VirtualClock, list[Any]]]:
    """Runs a reloader of the file sound.py, which offers SOUND. Yields it with its clock and the
    lines of the log.
    """
    file = folder / "sound.py"
    file.write_text(SOUND.format(1))
    clock = VirtualClock()

    async def swap() -> None:
        pass

    with offering([f"{file}:Sound"]), capture_logs() as lines:
        reloader = PluginReloader(swap, clock)
        async with started(reloader.run):
            yield reloader, clock, lines


async def test_a_file_that_stays_away_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "sound.py"
    async with following(tmp_path) as (reloader, clock, lines):
        file.unlink()
        await clock.advance(10 * LOOK_SECONDS)
        assert "No such file" in reloader.problem
        file.write_text(SOUND.format(1))
        await clock.advance(2 * LOOK_SECONDS)
        assert reloader.problem == ""
    assert [line["event"] for line in lines] == ["plugin not reloaded", "plugin reloaded"]


@pytest.mark.usefixtures("_modules")
async def test_a_module_that_could_not_be_imported_is_followed_until_it_can(tmp_path: Path) -> None:
    file, helper = tmp_path / "sound.py", tmp_path / "helper.py"
    async with following(tmp_path) as (reloader, clock, lines):
        helper.write_text("import circle\nWORD = 1")
        (tmp_path / "circle.py").write_text("from helper import WORD")
        file.write_text(f"import helper\n{SOUND.format(2)}")
        await clock.advance(3 * LOOK_SECONDS)
        assert "partially initialized module" in reloader.problem
        (tmp_path / "circle.py").write_text("")
        await clock.advance(LOOK_SECONDS)
        assert reloader.problem == ""
    assert [line["event"] for line in lines] == ["plugin not reloaded", "plugin reloaded"]


async def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "sound.py"
    async with following(tmp_path) as (reloader, clock, _):
        file.unlink()
        os.mkfifo(file)
        await clock.advance(3 * LOOK_SECONDS)
        assert "it is no file" in reloader.problem
