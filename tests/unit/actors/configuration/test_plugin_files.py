"""The plugins of `--plugin FILE:CLASS`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from berth.actors.cli import main
from berth.actors.configuration.file import file_or_default
from berth.actors.configuration.plugin_files import loaded_again, offering, plugins_of_files
from berth.actors.configuration.plugin_packages import every_plugin, origin_of
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.registry import RegistryError
from berth.actors.wiring.profiles import profiles_of
from tests.kit.handle import NoApi
from tests.kit.logs import capture_logs

SOUND = """
from berth.plugin import SUCCESS, {base}


class Sound({base}):
    name = "{name}"
    answer = {answer}

    def filter_node(self, state, info, node):
        return SUCCESS

    def sort_key(self, info):
        return 0.0

    async def bind(self, state, info, node):
        return SUCCESS
"""
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: with
    plugins: {multiPoint: {enabled: [{name: Sound}]}}
  - schedulerName: without
"""


@pytest.fixture(autouse=True)
def _path() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith(("plugin_file_", "own")):
            del sys.modules[name]


def written(
    path: Path, base: str = "NodeFilterPlugin", name: str = "Sound", answer: int = 1
) -> str:
    path.write_text(SOUND.format(base=base, name=name, answer=answer))
    return f"{path}:Sound"


def profiles(file: Path | None = None) -> dict[str, Profile]:
    return profiles_of(file_or_default(file), NoApi())


def names(profile: Profile) -> list[str]:
    return [plugin.name for plugin in profile.plugins]


def test_it_is_offered_like_an_installed_one_and_enabled_in_each_profile(tmp_path: Path) -> None:
    with offering([written(tmp_path / "sound.py")]):
        assert "Sound" in every_plugin()
        assert "Sound" in names(profiles()["default-scheduler"])
    assert "Sound" not in every_plugin()
    assert "Sound" not in names(profiles()["default-scheduler"])


LATE = """
import sys

from berth.actors.scheduling.decision.overruns import interrupt


def late(*_):
    interrupt(sys._getframe(), 1e9, 29.0)
    interrupt(sys._getframe(), 1e9, 31.0)  # as the watchdog's signal does
"""


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("\nlate()\n", r"sound.py:\d+: cannot be imported: "),
        ("\n    __init__ = late\n", "plugin Sound cannot be made: "),
    ],
)
def test_one_that_does_not_return_while_it_is_imported_or_made_is_interrupted(
    more: str, problem: str, tmp_path: Path
) -> None:
    text = written(tmp_path / "sound.py")
    source = Path(tmp_path / "sound.py").read_text()
    (tmp_path / "sound.py").write_text(LATE + source + more)
    overrun = r"PluginOverrunError: interrupted after 31.0 s at .*sound.py:"
    with pytest.raises(RegistryError, match=problem + overrun), capture_logs(), offering([text]):
        profiles()


def test_where_the_configuration_names_it_the_configuration_decides(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(CONFIGURATION)
    with offering([written(tmp_path / "sound.py")]):
        made = profiles(file)
        assert "Sound" in names(made["with"])
        assert "Sound" not in names(made["without"])


def test_one_that_sorts_or_binds_takes_the_place_of_the_default_one(tmp_path: Path) -> None:
    with offering([written(tmp_path / "sound.py", "QueueSortPlugin, BindPlugin")]):
        profile = profiles()["default-scheduler"]
    assert "PrioritySort" not in names(profile)
    assert profile.binders == ("Sound", "DefaultBinder")


def test_processes_that_are_started_have_it_too(tmp_path: Path) -> None:
    code = (
        "from berth.actors.configuration.plugin_packages import every_plugin, origin_of\n"
        "print('Sound' in every_plugin())"
    )
    with offering([written(tmp_path / "sound.py")]):
        assert subprocess.check_output([sys.executable, "-c", code], text=True) == "True\n"
    assert "BERTH_PLUGINS" not in os.environ


@pytest.mark.parametrize("first", ["", "from .sound import Sound"])
def test_a_module_of_a_package_imports_what_is_beside_it(first: str, tmp_path: Path) -> None:
    """The package may import the module itself."""
    name = "named" if first else "own"
    package = tmp_path / name
    package.mkdir()
    (package / "__init__.py").write_text(first)
    (package / "names.py").write_text("NAME = 'Sound'")
    module = package / "sound.py"
    text = written(module)
    source = module.read_text().replace('"Sound"', "NAME")
    module.write_text(f"from .names import NAME\n{source}")
    with offering([text]):
        assert plugins_of_files()["Sound"].__module__ == f"{name}.sound"


def test_a_configuration_that_names_one_is_checked_with_it(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(CONFIGURATION)
    command = ["config", "check", str(file)]
    assert "unknown plugin 'Sound'" in CliRunner().invoke(main, command).output
    result = CliRunner().invoke(main, [*command, "--plugin", written(tmp_path / "sound.py")])
    assert (result.exit_code, "valid: profiles with, without" in result.output) == (0, True)


@pytest.mark.parametrize(
    "command", ["whatif", "whatif serve", "doctor", "shadow", "mcp", "replay x", "demo", "bench"]
)
def test_the_commands_that_decide_with_plugins_offer_it(command: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [*command.split(), "--plugin", f"{tmp_path}/none.py:None"])
    assert (result.exit_code, "none.py: cannot be read" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("source", "name", "problem"),
    [
        (None, "Sound", "cannot be read: No such file or directory"),
        ("x = (", "Sound", ":1: cannot be imported: SyntaxError: "),
        ("\nimport no_such_module", "Sound", ":2: cannot be imported: ModuleNotFoundError: "),
        ("raise SystemExit(1)", "Sound", ":1: cannot be imported: SystemExit: 1"),
        ("", "Sound", "expected the class Sound: it has no plugin"),
        (SOUND.format(base="BindPlugin", name="S", answer=1), "Soud", "it has Sound"),
        ("Sound = 7", "Sound", "expected a Plugin class, got 7"),
        (
            SOUND.format(base="BindPlugin", name="NodeName", answer=1),
            "Sound",
            "of an in-tree plugin",
        ),
        ("", "", "expected FILE:CLASS, such as price.py:Price"),
    ],
)
@pytest.mark.parametrize("command", [["run", "--master=http://127.0.0.1:9"], ["explain", "web"]])
def test_one_that_cannot_be_used_is_an_error_of_the_command_line(
    tmp_path: Path, source: str | None, name: str, problem: str, command: list[str]
) -> None:
    file = tmp_path / "sound.py"
    if source is not None:
        file.write_text(source)
    result = CliRunner().invoke(main, [*command, "--plugin", f"{file}:{name}"])
    assert result.exit_code == 2
    (line,) = [line for line in result.output.splitlines() if line.startswith("Error: ")]
    assert line.startswith(f"Error: --plugin {file}")
    assert problem in line


def test_two_of_one_name_are_refused(tmp_path: Path) -> None:
    texts = [written(tmp_path / "one.py"), written(tmp_path / "two.py")]
    problem = "another file has a plugin of the name Sound"
    with pytest.raises(RegistryError, match=problem), offering(texts):
        pass


def test_a_changed_file_is_taken_and_the_old_one_kept_if_it_fails(tmp_path: Path) -> None:
    file = tmp_path / "sound.py"

    def answer() -> object:
        return vars(plugins_of_files()["Sound"])["answer"]

    text = written(file)
    with offering([text]):
        first = origin_of(plugins_of_files()["Sound"])
        written(file, answer=2)
        assert answer() == 1
        with loaded_again(text):
            assert answer() == 2
        second = origin_of(plugins_of_files()["Sound"])
        assert first is not None
        assert second is not None
        assert first.package == second.package == str(file)
        assert first.version != second.version
        file.write_text("import no_such_module")
        with pytest.raises(RegistryError, match="no_such_module"), loaded_again(text):
            pass
        assert answer() == 2
        written(file, name="Other")
        problem = "expected the name 'Sound', got 'Other'"
        with pytest.raises(RegistryError, match=problem), loaded_again(text):
            pass
        written(file, answer=3)
        with pytest.raises(KeyError), loaded_again(text):
            raise KeyError
        assert answer() == 2
        assert origin_of(plugins_of_files()["Sound"]) == second


def test_help_says_where_it_is_enabled() -> None:
    for command in ("run", "demo", "explain", "whatif", "bench"):
        shown = " ".join(CliRunner().invoke(main, [command, "--help"]).output.split())
        assert "--plugin FILE:CLASS" in shown
        assert "it is enabled in each profile, at every point that it implements" in shown
