"""The tables of the page on faults, made from the vocabulary."""

from __future__ import annotations

from berth.tools.cluster.faults.vocabulary import FAULTS, FaultPlace
from tests.docs.blocks import ROOT

PAGE = ROOT / "docs/faults.md"
BEGIN, END = "<!-- the vocabulary -->\n", "<!-- its end -->\n"


def tables() -> str:
    lines = [BEGIN, "\n| fault | met by | what happens | fields |", "| --- | --- | --- | --- |"]
    for does, kind in FAULTS.items():
        fields = ", ".join(f"`{field}`" for field in kind.fields)
        lines.append(f"| `{does}` | {kind.met} | {kind.text} | {fields} |")
    lines += ["", "| fault | not in | because |", "| --- | --- | --- |"]
    for does, kind in FAULTS.items():
        lines += (f"| `{does}` | {place} | {why} |" for place, why in kind.refused.items())
    return "\n".join(lines).replace(f"{BEGIN}\n\n", f"{BEGIN}\n") + f"\n\n{END}"


def refresh() -> None:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + tables() + rest.partition(END)[2])


assert {place for kind in FAULTS.values() for place in kind.refused} <= {*FaultPlace}
