"""Prints a decision: the chosen node and its scores, and why each other node was rejected."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
from rich.console import Console
from rich.table import Table

from berth.actors.scheduling.plugins.default_preemption.victims import Candidate

from .contest import Contest
from .decision import Decision, Explanation, Failure, Verdict
from .devices import DeviceSupply, RequestDevices, RequestProblem
from .volumes import Demand
from .words import MOST_NAMES, listed, shown

MOST_CANDIDATES = 20
MOST_ROWS = 40
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


def conclusion(explained: Explanation, *, now: bool = True) -> str:
    """Returns where the pod goes, or why it stays pending: a sentence without its subject. Unless
    `now`, something else has to happen first.
    """
    decision, contest = explained.decision, explained.contest
    if isinstance(decision, Failure):
        return f"stays pending, as the attempt fails: {decision.error}"
    goes = "goes" if now else "would go"
    if decision.hosts:
        several = (
            f" (one of {len(decision.hosts)} that tie, by chance)"
            if len(decision.hosts) > 1
            else ""
        )
        return f"{goes} to {listed(decision.hosts)}{several}"
    stays = f"{'stays' if now else 'would stay'} pending: {decision.message or ''}"
    return stays if contest is None else f"{stays} {_nomination(contest)}"


def _nomination(contest: Contest) -> str:
    """Returns the result of preemption: a sentence without its subject."""
    best = contest.candidates[0]
    tie = [candidate.node for candidate in contest.candidates[: contest.ties]]
    several = (
        f" (or on another of {listed(tie)}, which cost the same, by chance)" if len(tie) > 1 else ""
    )
    number = len(best.victims.pods)
    victims = (
        "no pod is evicted"
        if not number
        else f"{number} {'pod is' if number == 1 else 'pods are'} evicted first"
    )
    return f"is nominated to {best.node} by {contest.chosen_by}: {victims}{several}"


def show(
    explained: Explanation,
    volumes: Sequence[Demand],
    devices: DeviceSupply,
    name: str,
    standing: Sequence[str],
    top: int,
    console: Console,
) -> None:
    """Prints why the pod of this name is not tried now, at most `top` of the feasible nodes with
    their scores, the others by reason, the demands of the pod's volumes, the devices that the nodes
    would give to its claims, and the outcome.
    """
    decision, contest = explained.decision, explained.contest
    pod = shown(name)
    for sentence in standing:
        console.print(f"[yellow]{pod} {shown(sentence)}.[/yellow] If it were tried now:")
    if isinstance(decision, Failure):
        _show_demands(volumes, devices, {}, console)
        console.print(f"[red]{pod}: the attempt fails:[/red] {shown(decision.error)}")
        return
    if decision.prefilter is not None:
        by = shown(decision.prefilter.plugin or "the PreFilter plugins together")
        console.print(f"No node was tried: {by} rejected the pod.")
    if decision.total:
        console.print(_scores(decision, top))
    losers = _losers(decision.filter)
    if losers.row_count:
        console.print(losers)
    _show_demands(volumes, devices, decision.total, console)
    sentence = conclusion(msgspec.structs.replace(explained, contest=None), now=not standing)
    head, mark, rest = sentence.partition(" (" if decision.hosts else ": ")
    color = "green" if decision.hosts else "yellow"
    console.print(f"[{color}]{pod} {shown(head)}[/{color}]{shown(mark + rest)}")
    if contest is not None:
        console.print(_candidates(contest))
        console.print(f"[green]{pod}[/green] {shown(_nomination(contest))}")


def _show_demands(
    volumes: Sequence[Demand], devices: DeviceSupply, totals: Mapping[str, int], console: Console
) -> None:
    if volumes:
        console.print(_volumes(volumes))
    if devices.provided:
        console.print(_provided(devices.provided, totals))
    if devices.short:
        console.print(_short(devices.short))


def _candidates(contest: Contest) -> Table:
    """Returns a row for each node where preemption would help, cheapest first, and its drawback."""
    table = Table(title="nodes where preemption would help, and its victims", title_justify="left")
    for column in (
        "node",
        "victims (priority, running since)",
        "violated budgets",
        "why not this one",
    ):
        table.add_column(column, overflow="fold")
    for i, candidate in enumerate(contest.candidates[:MOST_CANDIDATES]):
        why_not = (
            ("chosen" if not i else "costs the same; chance decides")
            if i < contest.ties
            else contest.why_not(candidate)
        )
        _add_candidate(table, contest, candidate, why_not, "green" if i < contest.ties else None)
    more = len(contest.candidates) - MOST_CANDIDATES
    if more > 0:
        table.add_row(f"and {more} more", "", "", "they cost as much, or more")
    for candidate in contest.left_out[:MOST_NAMES]:
        _add_candidate(table, contest, candidate, "an extender left it out", "dim")
    if len(contest.left_out) > MOST_NAMES:
        table.add_row(
            f"and {len(contest.left_out) - MOST_NAMES} more",
            "",
            "",
            "left out by an extender",
            style="dim",
        )
    return table


def _add_candidate(
    table: Table, contest: Contest, candidate: Candidate, why_not: str, style: str | None
) -> None:
    victims = [
        f"{victim.key} ({victim.priority}, {victim.pod.status.start_time or 'not yet'})"
        for victim in candidate.victims.pods
    ]
    table.add_row(
        shown(candidate.node),
        shown(*victims),
        shown(*contest.budgets.get(candidate.node, ())),
        shown(why_not),
        style=style,
    )


def _scores(decision: Decision, top: int) -> Table:
    table = Table(title="nodes that fit, and their scores", title_justify="left")
    table.add_column("node")
    columns = {plugin: scores for plugin, scores in decision.score.items() if any(scores.values())}
    for plugin in columns:
        table.add_column(shown(_WORDS.sub(" ", plugin)), justify="right")
    table.add_column("total", justify="right", style="bold")
    best = set(decision.best)
    ranking = sorted(decision.total, key=lambda name: (-decision.total[name], name))
    for node in ranking[:top]:
        cells = [str(scores[node]) for scores in columns.values()]
        table.add_row(
            shown(node), *cells, str(decision.total[node]), style="green" if node in best else None
        )
    if len(ranking) > top:
        table.add_row(f"and {len(ranking) - top} more")
    return table


def _losers(verdicts: dict[str, Verdict]) -> Table:
    """Returns one row for all nodes that the same plugin rejected for the same reasons."""
    table = Table(title="nodes that do not fit", title_justify="left")
    for column in ("nodes", "plugin", "reasons", "could preemption help"):
        table.add_column(column, overflow="fold")
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for node, verdict in verdicts.items():
        if verdict.code != "Success":
            groups[verdict.plugin, "; ".join(verdict.reasons), verdict.code].append(node)
    for (plugin, reasons, code), nodes in sorted(groups.items(), key=lambda group: -len(group[1])):
        helps = "maybe" if code == "Unschedulable" else "no"
        table.add_row(*map(shown, (listed(sorted(nodes)), plugin, reasons, helps)))
    return table


def _volumes(volumes: Sequence[Demand]) -> Table:
    """Returns a row for each demand of a volume on the nodes."""
    table = Table(title="volumes, and what they ask of a node", title_justify="left")
    for column in ("volume", "state", "what it asks", "nodes left out"):
        table.add_column(column, overflow="fold")
    last: tuple[str, str] | None = None
    for demand in volumes:
        volume = (demand.volume, demand.state)
        out = "all" if demand.left_out is None else listed(demand.left_out) or "none"
        cells = (*(("", "") if volume == last else volume), demand.meaning, out)
        table.add_row(*map(shown, cells))
        last = volume
    return table


def _provided(devices: Sequence[RequestDevices], totals: Mapping[str, int]) -> Table:
    """Returns a row for each request and the nodes with the same devices for it, best first."""
    table = Table(title="devices that the nodes would give", title_justify="left")
    for column in ("nodes", "claim", "request", "devices"):
        table.add_column(column, overflow="fold")
    best = sorted(devices, key=lambda row: (-max(totals.get(n, -1) for n in row.nodes), row.nodes))
    last: tuple[str, ...] | None = None
    for row in best[:MOST_ROWS]:
        nodes = "" if row.nodes == last else listed(row.nodes)
        table.add_row(*map(shown, (nodes, row.claim, row.request)), shown(*row.devices))
        last = row.nodes
    if len(best) > MOST_ROWS:
        table.add_row(f"and {len(best) - MOST_ROWS} more rows", "", "", "")
    return table


def _short(short: Sequence[RequestProblem]) -> Table:
    """Returns a row for each problem and the nodes that have it, most nodes first."""
    table = Table(title="devices that are short", title_justify="left")
    for column in ("nodes", "claim", "request", "why"):
        table.add_column(column, overflow="fold")
    most = sorted(short, key=lambda problem: (problem.nodes is not None, -len(problem.nodes or ())))
    for problem in most[:MOST_ROWS]:
        nodes = "all" if problem.nodes is None else listed(problem.nodes)
        table.add_row(*map(shown, (nodes, problem.claim or "any", problem.request, problem.why)))
    if len(most) > MOST_ROWS:
        table.add_row(f"and {len(most) - MOST_ROWS} more rows", "", "", "")
    return table
