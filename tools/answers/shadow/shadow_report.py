"""The report of a shadow: how often berth would have chosen the same node, and each difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from berth.actors.telemetry.klog import printable

from .placement_judge import Agreement
from .shadow_state import AGREES, Placement

MOST_KEPT = 1000
MEANINGS = {
    Agreement.SAME: "the node is the best one for berth",
    Agreement.TIE: "the node is one of several that are equally good",
    Agreement.ORDER: "the same or a tie, if changes of that moment are counted in another order",
    Agreement.HELD: "volumes or devices that the pod has by now left no other node",
    Agreement.SAMPLED: "the node fits, and the scheduler may not have looked at the better ones",
    Agreement.DIFFERENT: "berth would have chosen another node",
}


class Report:
    """The placements so far. Of those that differ, only the first are kept in full."""

    def __init__(self) -> None:
        self.counts: Counter[Agreement] = Counter()
        self.kept: list[Placement] = []

    def add(self, placement: Placement) -> None:
        self.counts[placement.agreement] += 1
        if placement.agreement not in AGREES and len(self.kept) < MOST_KEPT:
            self.kept.append(placement)

    @property
    def judged(self) -> int:
        return self.counts.total()

    @property
    def differs(self) -> bool:
        return bool(self.counts[Agreement.DIFFERENT])

    def sentence(self) -> str:
        """Returns the result in one sentence."""
        if not self.judged:
            return "no pod was bound"
        share = 1 - self.counts[Agreement.DIFFERENT] / self.judged
        pods = "pod" if self.judged == 1 else "pods"
        same = f"berth agrees about {share:.1%} of {self.judged} {pods}"
        return same if share < 1 else f"berth agrees about all {self.judged} {pods}"

    def document(self, skipped: int) -> dict[str, Any]:
        """Returns the report as plain JSON values."""
        return {
            "judged": self.judged,
            "skipped": skipped,
            "agreements": {str(each): self.counts[each] for each in Agreement},
            "placements": [msgspec.to_builtins(placement) for placement in self.kept],
        }

    def markdown(self, skipped: int) -> str:
        """Returns the report as Markdown, for an issue or a pull request."""
        lines = ["# Shadow", "", f"{self.sentence()}.", ""]
        lines += _rows(("agreement", "pods", "meaning"), self._agreement_counts(skipped))
        if self.kept:
            rows = [(p.pod, p.node, str(p.agreement), p.reason) for p in self.kept]
            lines += ["", *_rows(("pod", "node", "agreement", "reason"), rows)]
        return "\n".join(lines)

    def show(self, skipped: int, console: Console) -> None:
        """Prints the report as tables."""
        table = Table(title="placements", title_justify="left")
        table.add_column("agreement")
        table.add_column("pods", justify="right")
        table.add_column("meaning", overflow="fold")
        for row in self._agreement_counts(skipped):
            table.add_row(*row)
        console.print(table)
        color = "yellow" if self.differs else "green"
        console.print(f"[{color}]{self.sentence()}[/{color}]")

    def _agreement_counts(self, skipped: int) -> list[tuple[str, str, str]]:
        rows = [(str(each), str(self.counts[each]), MEANINGS[each]) for each in Agreement]
        if skipped:
            rows.append(("skipped", str(skipped), "an extender takes part in the decision"))
        return rows


def line_of(placement: Placement) -> str:
    """Returns a line about a placement that is not the same."""
    words = f"{placement.pod} on {placement.node}: {placement.agreement}: {placement.reason}"
    return printable(words)


def _rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def row(cells: Sequence[str]) -> str:
        return f"| {' | '.join(printable(cell).replace('|', '&#124;') for cell in cells)} |"

    return [row(header), row(["---"] * len(header)), *map(row, rows)]
