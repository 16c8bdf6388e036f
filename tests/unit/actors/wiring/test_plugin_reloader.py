"""`--reload` takes the changed file of a plugin into use, and keeps the old one if it fails."""

from __future__ import annotations

from pathlib import Path

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
