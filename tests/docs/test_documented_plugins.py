"""The plugins of docs/plugins.md keep the contracts of plugins."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from berth.plugin import Plugin
from berth.testing import check_plugin, node, pod
from tests.docs.blocks import PLUGINS, write_files

NODES = [node("n", cpu=4, labels={"example.com/price": price}) for price in ("10", "40")]
GROUPED = {"example.com/group": "a", "example.com/quorum": "2"}
PODS = [pod("p", cpu="100m", labels=GROUPED), pod("p", cpu=1)]


@pytest.mark.full("long")
@pytest.mark.parametrize("name", ["Price", "Headroom", "Advice", "Licences", "Encrypted", "Quorum"])
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
