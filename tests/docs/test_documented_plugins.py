"""The plugins of docs/plugins.md keep the contracts of plugins."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from berth.plugin import Plugin
from berth.testing import check_plugin, node, pod
from berth.tools.testing.plugin_commands.plugin_kinds import KINDS
from tests.docs import recipes
from tests.docs.blocks import PLUGINS, blocks, write_files

NODES = [node("n", cpu=4, labels={"example.com/price": price}) for price in ("10", "40")]
GROUPED = {"example.com/group": "a", "example.com/size": "2"}
PODS = [pod("p", cpu="100m", labels=GROUPED), pod("p", cpu=1)]


@pytest.mark.full("long")
@pytest.mark.parametrize("name", ["Price", "Headroom", "Advice", "Licences", "Encrypted", "Gang"])
def test_a_plugin_keeps_its_contracts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(PLUGINS, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for imported in [each for each in sys.modules if each.startswith("berth_examples")]:
        monkeypatch.delitem(sys.modules, imported)
    module = __import__(f"berth_examples.{name.lower()}", fromlist=[name])
    plugin: type[Plugin] = getattr(module, name)
    check_plugin(plugin, nodes=NODES, pods=PODS)


def test_the_recipes_are_what_new_packages_begin_with() -> None:
    assert [recipes.kind_of(block) for block in recipes.shown()] == list(KINDS)
    for block in recipes.shown():
        assert block.text == recipes.source(block), f"{block}: python -m tests.docs.refresh"


def test_coscheduling_has_sixty_lines() -> None:
    (gang,) = (each for each in blocks(PLUGINS, "python") if each.title == "berth_examples/gang.py")
    assert sum(map(bool, gang.text.splitlines())) <= 60
