"""A decision as a person reads it: who won and by what, who lost and to what."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from rich.console import Console
from rich.table import Table

from tools.explain.decision import Decision, Failure, Verdict

MOST_NAMES = 8
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


def show(decision: Decision | Failure, metadata: dict[str, Any], console: Console) -> None:
    """Print the feasible nodes with their scores, the others by their reasons, and what becomes of the pod."""
    pod = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
    if isinstance(decision, Failure):
        console.print(f"[red]{pod}: the attempt fails:[/red] {decision.error}")
        return
    if decision.prefilter is not None:
        by = decision.prefilter.plugin or "the node sets of several plugins"
        console.print(f"No node was looked at: {by} turned the pod away.")
    if decision.total:
        console.print(_scores(decision))
    losers = _losers(decision.filter)
    if losers.row_count:
        console.print(losers)
    if decision.hosts:
        several = f" (one of {len(decision.hosts)} that tie, by chance)" if len(decision.hosts) > 1 else ""
        console.print(f"[green]{pod} goes to {_names(decision.hosts)}[/green]{several}")
    else:
        console.print(f"[yellow]{pod} stays pending:[/yellow] {decision.message}")


def _scores(decision: Decision) -> Table:
    table = Table(title="nodes that fit, and their scores", title_justify="left")
    table.add_column("node")
    telling = {plugin: scores for plugin, scores in decision.score.items() if any(scores.values())}
    for plugin in telling:
        table.add_column(_WORDS.sub(" ", plugin), justify="right")
    table.add_column("total", justify="right", style="bold")
    best = set(decision.best)
    for node in sorted(decision.total, key=lambda name: (-decision.total[name], name)):
        cells = [str(scores[node]) for scores in telling.values()]
        table.add_row(node, *cells, str(decision.total[node]), style="green" if node in best else None)
    return table


def _losers(verdicts: dict[str, Verdict]) -> Table:
    """One row for all nodes that lost to the same plugin for the same reasons."""
    table = Table(title="nodes that do not fit", title_justify="left")
    for column in ("nodes", "plugin", "reasons", "could preemption help"):
        table.add_column(column, overflow="fold")
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for node, verdict in verdicts.items():
        if verdict.code != "Success":
            groups[verdict.plugin, "; ".join(verdict.reasons), verdict.code].append(node)
    for (plugin, reasons, code), nodes in sorted(groups.items(), key=lambda group: -len(group[1])):
        table.add_row(_names(sorted(nodes)), plugin, reasons, "maybe" if code == "Unschedulable" else "no")
    return table


def _names(nodes: list[str]) -> str:
    shown = ", ".join(nodes[:MOST_NAMES])
    return f"{shown} and {len(nodes) - MOST_NAMES} more" if len(nodes) > MOST_NAMES else shown
