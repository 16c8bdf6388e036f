"""Prints the debug pages of a running scheduler as tables."""

from __future__ import annotations

import time

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from berth.actors.messages.binding import WaitingPodDump
from berth.actors.messages.cache import NodeDump
from berth.actors.messages.queue import (
    QueuedPodDump,
    StoryStep,
)
from berth.actors.scheduling.framework.breaker import BreakerDump
from berth.actors.server.debug import (
    CachePage,
    ComparisonPage,
    PluginsPage,
    PodPage,
    QueuePage,
    UnreadablePage,
    WaitingPage,
)
from berth.actors.telemetry.klog import printable
from berth.config.types import Duration

MOST_NAMES = 8
FRAME, FRAME_OF_COLUMN = 1, 3  # characters that lines and spaces take up in a row of a table
PLACES = ("active", "backoff", "unschedulable", "gated", "in flight")
IN_MEBIBYTES = ("memory", "ephemeral-storage")


Page = CachePage | ComparisonPage | QueuePage | WaitingPage | UnreadablePage | PluginsPage


def show_section(page: Page, console: Console) -> None:
    match page:
        case CachePage(nodes):
            _print(_nodes(nodes), console)
        case ComparisonPage(()):
            console.print("[green]No difference from the API server.[/green]")
        case ComparisonPage(differences):
            table = _table(
                f"{_count(len(differences), 'difference')} from the API server",
                "what",
                "kind",
                "key",
            )
            for difference in differences:
                table.add_row(difference.what, difference.kind, difference.key, style="red")
            _print(table, console)
        case QueuePage(pods):
            _print(_queued(pods), console)
        case WaitingPage(pods):
            _print(_waiting(pods), console)
        case UnreadablePage(objects):
            table = _table(
                f"{_count(len(objects), 'object')} that cannot be read",
                "kind",
                "key",
                "uid",
                "problem",
            )
            for unreadable in objects:
                cells = (unreadable.kind, unreadable.key, unreadable.uid, unreadable.problem)
                table.add_row(*(escape(printable(cell)) for cell in cells), style="red")
            _print(table, console)
        case PluginsPage(plugins):
            _print(_plugins(plugins), console)


def show_pod(key: str, page: PodPage, console: Console) -> None:
    if page.queued is not None:
        _print(_queued((page.queued,)), console)
    if page.waiting is not None:
        _print(_waiting((page.waiting,)), console)
    if page.queued is None:
        console.print(f"{key} is no longer in the queue.")
    table = _table("history", "age", "to", "event", "while in flight", "plugin")
    for step in page.story:
        plugin = f"{step.plugin}: {printable(step.message)}" if step.message else step.plugin
        table.add_row(_age(step), step.queue, step.event, step.cause, escape(plugin))
    _print(table, console)


def _print(table: Table, console: Console) -> None:
    """Prints the rows as a table, or as lists where the longest words leave a table no room."""
    columns = [(str(column.header), list(map(str, column.cells))) for column in table.columns]
    texts = [(header, *cells) for header, cells in columns]
    least = [max(len(word) for text in column for word in text.split()) for column in texts]
    whole = [max(len(line) for text in column for line in text.splitlines()) for column in texts]
    spare = console.width - FRAME - sum(least) - FRAME_OF_COLUMN * len(columns)
    if spare >= 0:
        missing = sum(whole) - sum(least)
        for column, low, high in zip(table.columns, least, whole, strict=True):
            column.width = high if missing <= spare else low + (high - low) * spare // missing
        console.print(table)
        return
    lines = [str(table.title)]
    for row in range(table.row_count):
        values = [(header, cells[row].replace("\n", ", ")) for header, cells in columns]
        lines += ["", *(f"{header}: {value}" for header, value in values if value)]
    console.print("\n".join(lines), soft_wrap=True)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _nodes(nodes: tuple[NodeDump, ...]) -> Table:
    table = _table(
        f"{_count(len(nodes), 'node')} in the cache",
        "node",
        "requested / allocatable",
        "pods",
        "assumed",
        "nominated",
    )
    for node in nodes:
        room = [
            f"{name} {_amount_in_words(name, node.requested.get(name, 0))} / "
            f"{_amount_in_words(name, node.allocatable.get(name, 0))}"
            for name in sorted(node.allocatable.keys() | node.requested.keys())
            if name != "pods"
        ]
        names = [pod.key for pod in node.pods if not pod.assumed]
        assumed = [pod.key for pod in node.pods if pod.assumed]
        pods = f"{len(node.pods)} / {node.allocatable.get('pods', 0)}"
        if names:
            pods += f": {_first_names(names)}"
        name = f"{node.name} (deleted)" if node.deleted else node.name
        table.add_row(
            name, "\n".join(room), pods, _first_names(assumed), _first_names(list(node.nominated))
        )
    return table


def _queued(pods: tuple[QueuedPodDump, ...]) -> Table:
    columns = (
        "pod",
        "place",
        "priority",
        "attempts",
        "backoff left",
        "rejected by",
        "last moved by",
    )
    table = _table(f"{_count(len(pods), 'pod')} in the queue", *columns)
    for pod in sorted(pods, key=lambda pod: (PLACES.index(pod.place), -pod.priority, pod.key)):
        rejectors = [*pod.rejected_by, *(f"{plugin} (pending)" for plugin in pod.pending)]
        if pod.gate_message:
            rejectors = [f"{pod.gated_by}: {printable(pod.gate_message)}"]
        if pod.activated_by:
            rejectors.append(f"activated again and again by {pod.activated_by}")
        place = f"{pod.place} (held)" if pod.held else pod.place
        left = _seconds(pod.backoff_left) if pod.backoff_left else ""
        numbers = (str(pod.priority), str(pod.attempts), left)
        table.add_row(
            pod.key, place, *numbers, escape(", ".join(rejectors)), _last_rejection(pod.story)
        )
    return table


def _last_rejection(story: tuple[StoryStep, ...]) -> str:
    if not story:
        return ""
    step = story[-1]
    why = [
        step.event,
        f"while in flight {step.cause}" if step.cause else "",
        f"by {step.plugin}" if step.plugin else "",
    ]
    return f"{', '.join(filter(None, why))} ({_age(step)})"


def _waiting(pods: tuple[WaitingPodDump, ...]) -> Table:
    title = f"{_count(len(pods), 'pod')} waiting on Permit"
    table = _table(title, "pod", "node", "plugin", "time left")
    for pod in pods:
        for plugin, seconds in sorted(pod.waits_for.items()):
            table.add_row(pod.key, pod.node, plugin, _seconds(seconds))
    return table


def _plugins(plugins: tuple[BreakerDump, ...]) -> Table:
    title = f"{_count(len(plugins), 'plugin')} of packages"
    state_of = "state", "failures", "overruns", "last failure", "next try"
    table = _table(title, "plugin", "package", "profile", *state_of)
    for plugin in plugins:
        off = "left out" if plugin.left_out else "switched off"
        state = {"open": off, "probing": "tried again"}
        why = f"{plugin.point}: {plugin.why}" if plugin.why else ""
        numbers = str(plugin.failures), str(plugin.overruns)
        package = escape(printable(f"{plugin.package} {plugin.version}".strip()))
        table.add_row(
            *(plugin.plugin, package, plugin.profile),
            *(state.get(plugin.circuit, "in use"), *numbers),
            escape(printable(why)),
            _seconds(plugin.next_probe) if plugin.next_probe else "",
            style="red" if plugin.circuit == "open" else "",
        )
    return table


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _age(step: StoryStep) -> str:
    return _seconds(max(0.0, time.time() - step.at))


def _seconds(seconds: float) -> str:
    return str(Duration(round(seconds, 1) if seconds < 10 else round(seconds)))


def _amount_in_words(name: str, amount: int) -> str:
    if name == "cpu":
        return f"{amount}m"
    return f"{amount // 2**20}Mi" if name in IN_MEBIBYTES else str(amount)


def _first_names(names: list[str]) -> str:
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else shown
