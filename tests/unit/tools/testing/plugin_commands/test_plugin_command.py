"""`berth plugin`: new, check and list."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from berth.actors.configuration.plugin_files import load_plugin
from berth.testing import Cluster, pod, run_virtually
from berth.tools.testing.plugin_commands.plugin_command import plugin
from berth.tools.testing.plugin_commands.plugin_kind_tests import TESTS
from berth.tools.testing.plugin_commands.plugin_kinds import KINDS

CHANGING = """
from berth.plugin import NodeScorePlugin


class Changing(NodeScorePlugin):
    name = "Changing"
    calls = 0

    def score_node(self, state, info, node):
        self.calls += 1
        return self.calls % 100
"""


def said(*arguments: str) -> Result:
    return CliRunner().invoke(plugin, arguments)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith(("plugin_file_", "my")):
            del sys.modules[name]


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_package_has_all_that_the_next_commands_need(kind: str) -> None:
    result = said("new", "my-plugin", "--kind", kind)
    assert result.exit_code == 0
    assert "berth plugin check my-plugin/my_plugin/plugin.py:MyPlugin" in result.output
    folder = Path("my-plugin")
    assert 'MyPlugin = "my_plugin.plugin:MyPlugin"' in (folder / "pyproject.toml").read_text()
    listed = msgspec.json.decode(said("list", "-o", "json").output)
    assert "MyPlugin" not in {each["name"] for each in listed}
    compile((folder / "tests/test_plugin.py").read_text(), "test", "exec")


@pytest.mark.parametrize(("kind", "method"), [("queue-sort", "sort_key"), ("bind", "bind")])
def test_the_configuration_of_a_new_package_has_the_plugin_in_the_place_of_the_default_one(
    kind: str, method: str
) -> None:
    said("new", f"my-{kind}", "--kind", kind)
    (module,) = Path(f"my-{kind}").glob("*/plugin.py")
    (name,) = re.findall(r"^class (\w+)", module.read_text(), re.MULTILINE)

    made = load_plugin(f"{module}:{name}")

    async def story() -> None:
        config = Path(f"my-{kind}/scheduler.yaml")
        async with Cluster(pod("web"), nodes=1, plugins=[made], config=config) as cluster:
            await cluster.settled()
            assert cluster.pod("web").placed_on("node-1")
            assert cluster.calls(name, method)

    run_virtually(story)


@pytest.mark.parametrize("kind", KINDS)
def test_the_test_of_a_kind_passes(kind: str) -> None:
    TESTS[kind]()


@pytest.mark.full
def test_new_packages_are_tested_and_keep_the_contracts() -> None:
    modules = []
    for kind in KINDS:
        name = f"My{kind.title().replace('-', '')}"
        said("new", name, "--kind", kind)
        modules.append(f"my-{kind}/my_{kind.replace('-', '_')}/plugin.py")
        done = said("check", f"{modules[-1]}:{name}", "--examples", "1")
        assert done.exit_code == 0, done.output
    assert len(KINDS) == len(TESTS) == 14
    folders = [module.partition("/")[0] for module in modules]
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "--import-mode=importlib"]
    runs_well(".", "pytest", *options, "-o", f"pythonpath={' '.join(folders)}")
    runs_well(".", "ruff", "check", "-q", "--isolated", "--config", f"src = {folders}", *folders)


def runs_well(folder: str, *command: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"


def test_nothing_is_overwritten() -> None:
    said("new", "cheap")
    file = Path("cheap/cheap/plugin.py")
    file.write_text("mine")
    result = said("new", "Cheap")
    assert result.exit_code == 2
    assert "cheap exists already; nothing is overwritten" in result.output
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    "name", ["a b", "../a", "1st", "NodeName", "", "class", "Berth", "json", "tests", "numpy"]
)
def test_a_name_that_cannot_be_used(name: str) -> None:
    assert said("new", name).exit_code == 2
    assert not list(Path().iterdir())


def test_a_broken_contract_has_its_line_and_the_exit_code_1() -> None:
    Path("changing.py").write_text(CHANGING)
    result = said("check", "changing.py:Changing", "--examples", "1")
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert any(line.startswith("BROKEN  answers are the same for the same input") for line in lines)
    assert "ok      answers are valid" in lines


LICENSED = """
import msgspec

from berth.plugin import SKIP, SUCCESS, NodeFilterPlugin, ObjectMeta, PreFilterPlugin, WatchedKind


class Licence(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


LICENCES = WatchedKind("example.com/v1", "Licence", "/apis/example.com/v1/licences", Licence)


class Licensed(PreFilterPlugin, NodeFilterPlugin):
    name = "Licensed"
    lookups = (LICENCES,)

    def pre_filter(self, state, info, snapshot):
        found = snapshot.objects.within(Licence, info.pod.metadata.namespace)
        return SUCCESS if found else SKIP

    def filter_node(self, state, info, node):
        return SUCCESS if node.name else unknown
"""
OBJECTS = """
{apiVersion: example.com/v1, kind: Licence, metadata: {name: a, namespace: default}}
---
{apiVersion: example.com/v1, kind: Tenant, metadata: {name: a}}
"""


@pytest.mark.full
def test_objects_of_the_kinds_that_a_plugin_looks_up_are_in_the_clusters() -> None:
    Path("licensed.py").write_text(LICENSED)
    Path("objects.yaml").write_text(OBJECTS)
    command = "check", "licensed.py:Licensed", "--examples", "1"
    assert "its PreFilter skipped each pod" in said(*command).output
    result = said(*command, "-f", "objects.yaml")
    assert (result.exit_code, "skipped" in result.stdout) == (0, False)
    assert "left out, as no lookups of the plugin name it: Tenant" in result.stderr
    Path("licensed.py").write_text(LICENSED.replace("node.name", "not node.name"))
    assert "NameError" in said(*command, "-f", "objects.yaml").output


@pytest.mark.parametrize("which", ["changing.py:Changing", "Nobody", "x.py"])
def test_a_plugin_that_is_not_there(which: str) -> None:
    assert said("check", which).exit_code == 2


def test_the_list_says_points_package_and_profiles() -> None:
    listed = {each["name"]: each for each in msgspec.json.decode(said("list", "-o", "json").output)}
    fit = listed["NodeResourcesFit"]
    assert {"filter", "score"} <= set(fit["points"])
    assert (fit["package"], fit["enabled"]) == ("berth-scheduler", ["default-scheduler"])
    assert listed["PodSchedulingContext"]["enabled"] == []
    assert max(map(len, said("list").output.splitlines())) <= 80


def test_the_list_names_the_file_of_each_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        source = CHANGING.replace('"Changing"', f'"{name}"')
        Path(f"{name}.py").write_text(f"{source}\n\nAlias = Changing\n")
    offered = [f"{Path.cwd()}/one.py:Alias", f"{Path.cwd()}/two.py:Changing"]
    monkeypatch.setenv("BERTH_PLUGINS", "\n".join(offered))
    listed = {each["name"]: each for each in msgspec.json.decode(said("list", "-o", "json").output)}
    assert [listed[name]["package"] for name in ("one", "two")] == offered


def test_a_narrow_list_leaves_out_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = said("list").output.splitlines()
    assert {"enabled", "in"} <= set(" ".join(lines[:3]).split())
    first = next(number for number, line in enumerate(lines) if "DefaultBinder" in line)
    last = lines[first].split()[-1] + lines[first + 1].strip()
    assert last == "default-scheduler"


NEEDY = """
import msgspec

from berth.plugin import NodeScorePlugin, ObjectMeta, WatchedKind, read_args


class Args(msgspec.Struct):
    score: int


class Item(msgspec.Struct):
    min_member: int = 0


class Group(msgspec.Struct):
    metadata: ObjectMeta
    items: tuple[Item, ...] = ()


class Needy(NodeScorePlugin):
    name = "Needy"
    lookups = (WatchedKind("example.com/v1", "Group", "/apis/example.com/v1/groups", Group),)

    def __init__(self, args, handle):
        super().__init__({}, handle)
        self.args = read_args(args, Args)

    def score_node(self, state, info, node):
        return self.args.score
"""
GIVEN = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{pluginConfig: [{name: Needy, args: {score: 7}}]}]
"""


def test_a_plugin_is_checked_with_the_arguments_of_a_configuration() -> None:
    Path("needy.py").write_text(NEEDY)
    Path("given.yaml").write_text(GIVEN)
    command = "check", "needy.py:Needy", "--examples", "1"
    result = said(*command)
    assert result.exit_code == 2
    assert "score" in result.stderr
    result = said(*command, "--config", "given.yaml")
    assert (result.exit_code, "keeps all contracts" in result.stdout) == (0, True)


def test_a_field_whose_name_no_object_has_is_told() -> None:
    Path("needy.py").write_text(NEEDY)
    Path("given.yaml").write_text(GIVEN)
    command = "check", "needy.py:Needy", "--examples", "1", "--config", "given.yaml"
    odd = "odd     Group: Item.min_member is read from min_member; with rename"
    assert odd in said(*command).stdout
    Path("needy.py").write_text(
        NEEDY.replace("Item(msgspec.Struct)", 'Item(msgspec.Struct, rename="camel")')
    )
    assert "odd" not in said(*command).stdout
