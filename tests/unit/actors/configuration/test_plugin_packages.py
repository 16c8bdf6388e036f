"""Packages with plugins: one that a profile names is loaded or its problem is named."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from berth.actors.configuration.plugin_packages import every_plugin, origin_of
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.registry import RegistryError
from berth.actors.wiring.profiles import profiles_of
from berth.config.load import from_mapping
from berth.plugin import Plugin
from tests.kit.handle import NoApi
from tests.kit.logs import capture_logs
from tests.kit.processes import install

SOUND = """
from msgspec import Struct
from berth.plugin import SUCCESS, NodeFilterPlugin, ObjectMeta, WatchedKind


class Sound(NodeFilterPlugin):
    name = "{name}"

    def filter_node(self, state, info, node):
        return SUCCESS
"""
SILENT = "import sys; sys.modules[__name__].was_here = True"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def profile_with(*names: str, config: Any = ()) -> Profile:
    plugins = {"multiPoint": {"enabled": [{"name": name} for name in names]}}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins, "pluginConfig": list(config)}],
    }
    return profiles_of(from_mapping(document), NoApi())["default-scheduler"]


def install_sound(site: Path, more: str = "") -> None:
    """Installs a package with the plugin Sound, whose class goes on with `more`."""
    install(site, "sound", SOUND.format(name="Sound") + more, Sound="sound:Sound")


def names(profile: Profile) -> set[str]:
    return {plugin.name for plugin in profile.plugins}


def test_a_plugin_of_a_package(site: Path) -> None:
    install_sound(site)
    profile = profile_with("Sound")
    assert "Sound" in names(profile)
    origins = {plugin.name: origin_of(type(plugin)) for plugin in profile.plugins}
    assert str(origins.pop("Sound")) == "sound 1"
    assert set(origins.values()) == {None}


@pytest.mark.parametrize(
    "source", ["import no_such_module", "def", "raise SystemExit(1)", "1 / 0", SILENT]
)
def test_a_package_that_no_profile_names_is_left_alone(source: str, site: Path) -> None:
    install(site, "bad", source, Bad="bad:Bad")
    install_sound(site)
    with capture_logs() as lines:
        assert "Sound" in names(profile_with("Sound"))
    assert lines == []
    assert "bad" not in sys.modules


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def", "SyntaxError: "),
        ("raise SystemExit(1)", "SystemExit: 1"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("", "AttributeError: module 'bad' has no attribute 'Bad'"),
    ],
)
def test_one_that_a_profile_names_is_told_about(source: str, problem: str, site: Path) -> None:
    install(site, "bad", source, Bad="bad:Bad")
    with capture_logs() as lines, pytest.raises(RegistryError) as refused:
        profile_with("Bad")
    where = "profiles[0].plugins: plugin Bad of package bad, entry point bad:Bad: "
    assert str(refused.value).startswith(f"{where}cannot be loaded: {problem}")
    (line,) = lines
    expected = ("plugin cannot be loaded", "Bad", "bad")
    assert (line["event"], line["plugin"], line["package"]) == expected
    assert line["exc_info"]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("Bad = 7", "expected a Plugin class"),
        ("class Bad: name = 'Bad'", "expected a Plugin class"),
        (
            SOUND.format(name="Good").replace("Sound", "Bad"),
            "expected a class with the name 'Bad', got 'Good'",
        ),
    ],
)
def test_what_is_no_plugin_of_the_name(source: str, problem: str, site: Path) -> None:
    install(site, "bad", source, Bad="bad:Bad")
    with pytest.raises(RegistryError, match=f"entry point bad:Bad: {problem}$"):
        profile_with("Bad")
    profile_with()


def test_two_packages_with_one_name(site: Path) -> None:
    install(site, "one", SOUND.format(name="Sound"), Sound="one:Sound")
    install(site, "two", SOUND.format(name="Sound"), Sound="two:Sound")
    profile_with()
    with pytest.raises(
        RegistryError, match=r"plugins: plugin Sound: expected one package .*, got one and two$"
    ):
        profile_with("Sound")


def test_an_in_tree_plugin_is_not_replaced(site: Path) -> None:
    install(site, "thief", SOUND.format(name="NodeName"), NodeName="thief:Sound")
    with capture_logs() as lines:
        assert "NodeName" in names(profile_with())
    assert "thief" not in sys.modules
    (line,) = lines
    assert (line["log_level"], line["plugin"], line["package"]) == ("warning", "NodeName", "thief")


@pytest.mark.parametrize("closed", [".", "sound-1.dist-info", "sound-1.dist-info/entry_points.txt"])
def test_packages_that_only_their_owner_may_read_are_told(
    site: Path, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    def may_anybody(path: Path | str, mode: int) -> bool:
        return Path(path).exists() and Path(path).stat().st_mode & mode == mode

    site.chmod(0o755)
    install_sound(site)
    with monkeypatch.context() as patched, capture_logs() as lines:
        patched.setattr(os, "access", may_anybody)
        every_plugin()
        assert lines == []
        (site / closed).chmod(0o700)
        patched.syspath_prepend(site / "other")  # what is on another path is read again
        every_plugin()
    (line,) = lines
    assert (line["event"], line["path"]) == ("packages cannot be read", str(site / closed))


def test_a_name_that_nobody_has(site: Path) -> None:
    install(site, "bad", "import no_such_module", Bad="bad:Bad")
    with pytest.raises(RegistryError, match="unknown plugin 'Badd', did you mean Bad"):
        profile_with("Badd")
    profile_with(config=[{"name": "Bad", "args": {}}])


MAKING = """
    class A(Struct):
        spec: dict[str, str] = {{}}

    class B(Struct):
        metadata: ObjectMeta

    def __init__(self, args, handle):
        A, B = self.A, self.B
        {body}
"""


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            "raise ValueError('no licence')",
            "profiles[0]: plugin Sound cannot be made: ValueError: no licence",
        ),
        ("raise SystemExit(2)", "profiles[0]: plugin Sound cannot be made: SystemExit: 2"),
        (
            ("from berth.plugin import ArgsError; raise ArgsError('url: expected one')"),
            "profiles[0].pluginConfig[Sound].args.url: expected one",
        ),
    ],
)
def test_a_plugin_that_cannot_be_made(body: str, problem: str, site: Path) -> None:
    install_sound(site, MAKING.format(body=body))
    with capture_logs() as lines, pytest.raises(RegistryError) as refused:
        profile_with("Sound")
    assert str(refused.value) == problem
    assert all(line["exc_info"] for line in lines)
    assert len(lines) == ("cannot be made" in problem)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("lookups = property(lambda self: 1 / 0)", "ZeroDivisionError: division by zero"),
        ("depends_on = property(lambda self: 1 / 0)", "ZeroDivisionError: division by zero"),
        ("def __setattr__(self, name, value): raise TypeError('frozen')", "TypeError: frozen"),
    ],
)
def test_attributes_that_fail(body: str, problem: str, site: Path) -> None:
    install_sound(site, f"\n    {body}\n")
    with capture_logs(), pytest.raises(RegistryError, match=problem):
        profile_with("Sound")


def test_a_plugin_that_depends_on_no_member(site: Path) -> None:
    install_sound(site, "\n    depends_on = 'NODE'\n")
    with pytest.raises(
        RegistryError,
        match="plugin Sound: expected depends_on to be a member of DependsOn, got 'NODE'",
    ):
        profile_with("Sound")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("self.depends_on = 'NODE'", "expected depends_on to be a member of DependsOn, got 'NODE'"),
        ("self.lookups = (str,)", "lookups: expected a WatchedKind or some of .*, got str"),
        ("self.lookups = WatchedKind('a/v1', 'A', '/a', A)", "lookups: expected a tuple, got Wat"),
        ("self.lookups = (WatchedKind('a/v1', 'A', '/a', A),)", "lookups: A: .* metadata: Obj"),
        ("self.lookups = (WatchedKind('a/v1', 'A', '/a', int),)", "lookups: A: .* Struct, got <"),
        (
            "self.lookups = (WatchedKind('a/v1', 'A', 'a', B),)",
            "lookups: A: .* /apis/a/v1/, got 'a'",
        ),
        (
            "self.lookups = (WatchedKind('v1', 'A', '/api/v1/as', B, '', -1),)",
            "lookups: A: .*, got -1",
        ),
    ],
)
def test_a_plugin_that_declares_wrong_things_when_it_is_made(
    body: str, problem: str, site: Path
) -> None:
    install_sound(site, MAKING.format(body=body))
    with pytest.raises(RegistryError, match=f"plugin Sound: {problem}"):
        profile_with("Sound")


def test_a_class_that_makes_something_else(site: Path) -> None:
    install_sound(site, "\n    def __new__(cls, args, handle):\n        return 5\n")
    with pytest.raises(RegistryError, match=r"plugin Sound: expected its class to make .*, got 5"):
        profile_with("Sound")


@pytest.mark.parametrize("name", ["", "two\nlines", "half-\udcff"])
def test_a_name_that_cannot_be_written(name: str) -> None:
    kind = type("Odd", (Plugin,), {"name": name})
    with pytest.raises(RegistryError, match="plugin Odd: expected a name, got"):
        every_plugin([kind])


def test_an_abstract_plugin(site: Path) -> None:
    source = SOUND.format(name="Sound").replace("filter_node", "filter_nodes")
    install(site, "sound", source, Sound="sound:Sound")
    with pytest.raises(
        RegistryError,
        match="plugin Sound cannot be made: TypeError: Can't instantiate abstract class",
    ):
        profile_with("Sound")


@pytest.mark.parametrize("lookups", ["Node", "'Service'"])
def test_a_plugin_can_look_up_only_what_is_followed(site: Path, lookups: str) -> None:
    looking = SOUND.format(name="Looking").replace(
        "name = ", f"lookups = ({lookups},)\n    name = "
    )
    install(
        site,
        "looking",
        f"from berth.actors.scheduling.kube.core import Node{looking}",
        Looking="looking:Sound",
    )
    with pytest.raises(
        RegistryError,
        match=r"plugin Looking: lookups: expected a WatchedKind or some of Namespace, .*, got ",
    ):
        profile_with("Looking")
