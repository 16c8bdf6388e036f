"""Prints a decision: the chosen node and its scores, and why each other node was rejected."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from berth.actors.scheduling.plugins.default_preemption.victims import Candidate

from .asks.ask import Ask
from .decision import Decision, Explanation, Failure, NodeVerdict
from .device_words import DeviceSupply, RequestDevices, RequestProblem
from .on_node import OnNode, words_of
from .preemption_ranking import PreemptionRanking
from .volume_words import Demand
from .words import MOST_NAMES, counted_words, listed, shown

MOST_ASKS = 6
MOST_CANDIDATES = 20
MOST_ROWS = 40
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


def conclusion(
    explained: Explanation,
    asks: Collection[Ask] = (),
    on_node: OnNode | None = None,
    *,
    now: bool = True,
    bound: bool = True,
) -> tuple[str, str]:
    """Returns the node to which the pod goes, or that it stays pending, and further words about it;
    together a sentence without its subject.

    `asks` are the things that the nodes lack, `on_node` what becomes of the pod on the node that is
    chosen, if the decision has not the last word. Unless `now`, something else has to happen first.
    Unless `bound`, the pod would not be bound to the node.
    """
    decision, ranking = explained.decision, explained.ranking
    if isinstance(decision, Failure):
        return "stays pending", f", as the attempt fails: {decision.error}"
    if decision.hosts:
        ties = len(decision.hosts)
        several = f" (one of {ties} that tie, by chance)" if ties > 1 else ""
        if not bound:
            chosen = f": {listed(decision.hosts)}{several} would be chosen"
            return "would stay pending", f"{chosen}, and the binding fail"
        if on_node is not None:
            return words_of(on_node, several, now=now)
        return f"{'goes' if now else 'would go'} to {listed(decision.hosts)}", several
    stays = "stays pending" if now else "would stay pending"
    if ranking is not None:
        stays += f" until {ranking.candidates[0].node} has room"
    if decision.prefilter is not None:
        by = decision.prefilter.plugin or "the PreFilter plugins together"
        reasons = [ask.sentence for ask in asks] or decision.prefilter.reasons
        return stays, f": {by} says: {'; '.join(reasons)}"
    if not asks:
        return stays, f": {decision.message or ''}"
    nodes = sum(len(ask.nodes) for ask in asks)
    parts = [f"{len(ask.nodes)} {ask.sentence}" for ask in asks][:MOST_ASKS]
    more = ", ..." if len(asks) > MOST_ASKS else ""
    return stays, f": of {counted_words(nodes, 'node')}, {', '.join(parts)}{more}"


def sentence_of(standing: Sequence[str], decision: str) -> str:
    """Returns one sentence without its subject: why a pod is not tried now, and the decision about
    it.
    """
    if not standing:
        return decision
    return "; ".join((*standing, f"if it were tried now, it {decision}"))


def _nomination(ranking: PreemptionRanking) -> str:
    """Returns the result of preemption: a sentence without its subject."""
    best = ranking.candidates[0]
    tie = [candidate.node for candidate in ranking.candidates[: ranking.ties]]
    several = (
        f" (or on another of {listed(tie)}, which cost the same, by chance)" if len(tie) > 1 else ""
    )
    number = len(best.victims.pods)
    victims = (
        "no pod is evicted"
        if not number
        else f"{number} {'pod is' if number == 1 else 'pods are'} evicted first"
    )
    return f"is nominated to {best.node} by {ranking.chosen_by}: {victims}{several}"


def show(
    explained: Explanation,
    warnings: Sequence[str],
    asks: Mapping[Ask, NodeVerdict],
    helps: Sequence[str],
    on_node: OnNode | None,
    volumes: Sequence[Demand],
    devices: DeviceSupply,
    name: str,
    standing: Sequence[str],
    top: int,
    console: Console,
    *,
    bound: bool,
) -> None:
    """Prints why the scheduler does not try the pod now, the conclusion and the warnings; unless
    `bound`, also that the pod would not be bound.

    Then come at most `top` of the feasible nodes with their scores, and the things that the others
    lack, each with what `helps`. The demands of the pod's volumes, the devices that the nodes would
    give to its claims, and Kubernetes' own message follow.
    """
    decision, ranking = explained.decision, explained.ranking
    pod = shown(name)
    for sentence in standing:
        then = " If it were tried now:" if sentence is standing[-1] else ""
        console.print(f"[yellow]{pod} {shown(sentence)}.[/yellow]{then}")
    outcome, more = conclusion(explained, asks, on_node, now=not standing, bound=bound)
    held = on_node is not None and bool(on_node.rejected or on_node.waits_for)
    fits = not isinstance(decision, Failure) and bool(decision.hosts) and bound and not held
    color = "red" if isinstance(decision, Failure) else "green" if fits else "yellow"
    console.print(f"[{color}]{pod} {shown(outcome)}[/{color}]{shown(more)}")
    for warning in warnings:
        console.print(f"[yellow]{pod} {shown(warning)}.[/yellow]")
    if isinstance(decision, Failure):
        _show_demands(volumes, devices, {}, console)
        return
    if decision.total:
        console.print(_scores(decision, top))
    if asks and decision.prefilter is None:
        console.print(_ask_table(asks, helps))
    _show_demands(volumes, devices, decision.total, console)
    if ranking is not None:
        console.print(_candidate_table(ranking))
        console.print(f"[green]{pod}[/green] {shown(_nomination(ranking))}")
    if decision.message:
        console.print(f"Kubernetes' message: {shown(decision.message)}")


def _show_demands(
    volumes: Sequence[Demand], devices: DeviceSupply, totals: Mapping[str, int], console: Console
) -> None:
    if volumes:
        console.print(_volume_table(volumes))
    if devices.provided:
        console.print(_device_table(devices.provided, totals))
    if devices.short:
        console.print(_shortage_table(devices.short))


def _candidate_table(ranking: PreemptionRanking) -> Table:
    """Returns a row for each node where preemption would help, cheapest first, with its
    drawback.
    """
    table = Table(title="nodes where preemption would help, and its victims", title_justify="left")
    for column in (
        "node",
        "victims (priority, running since)",
        "violated budgets",
        "why not this one",
    ):
        table.add_column(column, overflow="fold")
    for i, candidate in enumerate(ranking.candidates[:MOST_CANDIDATES]):
        why_not = (
            ("chosen" if not i else "costs the same; chance decides")
            if i < ranking.ties
            else ranking.why_not(candidate)
        )
        _add_candidate(table, ranking, candidate, why_not, "green" if i < ranking.ties else None)
    more = len(ranking.candidates) - MOST_CANDIDATES
    if more > 0:
        table.add_row(f"and {more} more", "", "", "they cost as much, or more")
    for candidate in ranking.left_out[:MOST_NAMES]:
        _add_candidate(table, ranking, candidate, "an extender left it out", "dim")
    if len(ranking.left_out) > MOST_NAMES:
        table.add_row(
            f"and {len(ranking.left_out) - MOST_NAMES} more",
            "",
            "",
            "left out by an extender",
            style="dim",
        )
    return table


def _add_candidate(
    table: Table, ranking: PreemptionRanking, candidate: Candidate, why_not: str, style: str | None
) -> None:
    victims = [
        f"{victim.key} ({victim.priority}, {victim.pod.status.start_time or 'not yet'})"
        for victim in candidate.victims.pods
    ]
    table.add_row(
        shown(candidate.node),
        shown(*victims),
        shown(*ranking.budgets.get(candidate.node, ())),
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


def every_node(decision: Decision) -> Table:
    """Returns a row for each node that was looked at: its verdict and its scores."""
    table = Table()
    table.add_column("node")
    table.add_column("verdict")
    for plugin in decision.score:
        table.add_column(shown(_WORDS.sub(" ", plugin)), justify="right")
    if decision.total:
        table.add_column("total", justify="right", style="bold")
    best = set(decision.best)
    for node, verdict in sorted(
        decision.filter.items(), key=lambda item: (-decision.total.get(item[0], -1), item[0])
    ):
        why = "; ".join(verdict.reasons) or verdict.code
        words = f"{verdict.plugin}: {why}" if verdict.plugin else "best" if node in best else "fits"
        scores = [str(scores.get(node, "")) for scores in decision.score.values()]
        total = [str(decision.total.get(node, ""))] if decision.total else []
        table.add_row(shown(node), shown(words), *scores, *total)
    return table


def _ask_table(asks: Mapping[Ask, NodeVerdict], helps: Sequence[str]) -> Table:
    """Returns a row for each ask: its nodes, the plugin that rejected them, and what would help."""
    table = Table(title="nodes that do not fit", title_justify="left")
    for column in ("nodes", "plugin", "what they lack", "what would help"):
        table.add_column(column, overflow="fold")
    for (ask, verdict), change in zip(asks.items(), helps, strict=True):
        table.add_row(*map(shown, (listed(ask.nodes), verdict.plugin, ask.sentence, change)))
    return table


def _volume_table(volumes: Sequence[Demand]) -> Table:
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


def _device_table(devices: Sequence[RequestDevices], totals: Mapping[str, int]) -> Table:
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


def _shortage_table(short: Sequence[RequestProblem]) -> Table:
    """Returns a row for each problem with the nodes that have it, most nodes first."""
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
