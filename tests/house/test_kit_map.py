"""The map of the kit names each of its modules."""

from __future__ import annotations

import re
from pathlib import Path

from tests import kit


def test_the_map_of_the_kit_names_each_module() -> None:
    named = set(re.findall(r"\w+", kit.__doc__ or ""))
    modules = {path.stem for path in Path(kit.__file__).parent.glob("[!_]*.py")}
    assert {name for name in modules - named if not name.startswith("test_")} == set()
