"""The plugins of docs/plugins.md keep the contracts of plugins."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from berth.plugin import CycleState, Ints, NodeView, Plugin, PodInfo, ScorePlugin
from berth.testing import check_plugin, decide, node, pod
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


class Columns(ScorePlugin):
    """Reads the columns as the page says it."""

    name = "Columns"

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        columns = nodes.columns
        racks, names = columns.label("rack"), columns.names
        rows = columns.order.tolist()
        assert sorted(names[row] for row in rows) == ["a", "b", "c"]
        one = racks.values["one"]
        assert {names[row]: racks.codes[row] for row in rows} == {"a": one, "b": one, "c": -1}
        codes = columns.taint_classes.items()
        (tainted,) = [code for taints, code in codes if any(each.key == "gpu" for each in taints)]
        assert [names[row] for row in rows if columns.taints[row] == tainted] == ["c"]
        own = np.zeros(columns.size, dtype=np.int64)
        own[columns.row_of["b"]] = 100
        assert "d" not in columns.row_of
        return np.asarray(own[nodes.rows], dtype=np.int64)


def test_columns_are_as_the_page_says() -> None:
    racks = [node(name, labels={"rack": "one"}) for name in "ab"]
    tainted = node("c", taints=["gpu=a:PreferNoSchedule"])
    decision = decide(pod("p"), [*racks, tainted], plugins=[Columns])
    assert decision.scores_by_plugin["Columns"] == {"a": 0, "b": 100, "c": 0}, decision.message


def test_the_recipes_are_what_new_packages_begin_with() -> None:
    assert [recipes.kind_of(block) for block in recipes.shown()] == list(KINDS)
    for block in recipes.shown():
        assert block.text == recipes.source(block), f"{block}: python -m tests.docs.refresh"


def test_coscheduling_has_sixty_lines() -> None:
    (gang,) = (each for each in blocks(PLUGINS, "python") if each.title == "berth_examples/gang.py")
    assert sum(map(bool, gang.text.splitlines())) <= 60
