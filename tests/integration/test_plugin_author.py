"""A new user goes from the wheel to a tested plugin that changes placements in the demo, with the
five commands of docs/plugins.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kit.installations import Environment, built, ran

pytestmark = pytest.mark.full("waits")

ROOT = Path(__file__).parents[2]
SECTION = "## Five commands\n"


def commands() -> list[str]:
    _, _, section = (ROOT / "docs/plugins.md").read_text().partition(SECTION)
    block = section.partition("```sh\n")[2].partition("```")[0]
    return block.splitlines()


def in_zone_a(output: str) -> int:
    """Returns the pods in zone-a, by the demo's last lines."""
    found = re.search(r"pods by zone:.*?zone-a (\d+)", output)
    return int(found[1]) if found else 0


def test_the_five_commands(tmp_path: Path) -> None:
    install, *others = commands()
    assert install == "pip install berth-scheduler pytest"
    assert len(others) == 4
    environment = Environment(tmp_path, "berth-scheduler", "pytest")
    environment.install(built(ROOT, "wheel", tmp_path / "wheel"))
    said = []
    for command in others:
        program, *arguments = command.split()
        path = environment.program if program == "berth" else environment.python
        said.append(ran(path, *arguments, folder=environment.neutral))
    new, checked, tested, placed = said
    assert "cheap/ has the plugin Cheap" in new
    assert "Cheap: keeps all contracts" in checked
    assert "2 passed" in tested
    assert "13 placed, 0 pending" in placed
    assert in_zone_a(placed) > in_zone_a(environment.berth("demo"))
