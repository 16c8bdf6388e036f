"""The views: the tables and lines about a cluster, and the view that Enter opens for each row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from ...answers.feed.rows import NodeRow, PodRow
from ...answers.feed.story import Story
from .cluster_model import ClusterModel
from .columns import Cell, Line, ScreenColumn, bar, number_of_things, sparkline, wrapped_lines
from .story_lines import lines_of

ZONE = "topology.kubernetes.io/zone"
USUAL = ("cpu", "memory", "pods", "ephemeral-storage")
FULL, NEARLY_FULL = 0.95, 0.8
BAR_WIDTH = 12
_NUMBERS = re.compile(r"(\d+)")
_NODES_COUNTED = re.compile(r"\A\d+/\d+ nodes are available: ")


class View:
    """A view. A view without columns is text; its rows are lines that fit into `width`."""

    title: str
    columns: Sequence[ScreenColumn] = ()

    def head(self, cluster: ClusterModel, now: float) -> list[Line]:
        """Returns the lines above the table."""
        return []

    def rows(
        self, cluster: ClusterModel, text: str, now: float, width: int
    ) -> Sequence[str | Line]:
        """Returns the rows that contain a text, which is in lower case."""
        raise NotImplementedError

    def cells(self, cluster: ClusterModel, row: str, now: float) -> Line:
        """Returns a row of the table."""
        raise NotImplementedError

    def into(self, row: str) -> View | None:
        """Returns the view that Enter opens for a row; None if there is none."""
        return None


class Nodes(View):
    """The nodes, with the requests of their pods."""

    title = "cluster"
    columns = (
        ScreenColumn("NODE", 8, weight=3, middle=True),
        ScreenColumn("ZONE", 8, weight=1, since=64),
        ScreenColumn("STATE", 9, weight=1),
        ScreenColumn("PODS", 7, right=True, since=50),
        ScreenColumn("CPU", BAR_WIDTH),
        ScreenColumn("MEMORY", BAR_WIDTH, since=60),
        ScreenColumn("OTHER", 12, weight=2, since=100),
        ScreenColumn("TAINTS", 12, weight=3, since=110),
    )

    def head(self, cluster: ClusterModel, now: float) -> list[Line]:
        whole, used = Counter[str](), Counter[str]()
        for name, node in cluster.nodes.items():
            whole.update(node.allocatable)
            used.update({resource: cluster.use(name, resource) for resource in node.allocatable})
        shares = ", ".join(f"{r} {used[r] / whole[r]:.0%}" for r in ("cpu", "memory") if whole[r])
        zones = len({node.labels.get(ZONE) for node in cluster.nodes.values()} - {None})
        nodes, pods = (
            number_of_things(len(cluster.nodes), "node"),
            number_of_things(len(cluster.pods), "pod"),
        )
        text = f"{nodes} in {number_of_things(zones, 'zone')}, {pods}"
        return [((text, ""), (f"; requested: {shares}" if shares else "", ""))]

    def rows(self, cluster: ClusterModel, text: str, now: float, width: int) -> Sequence[str]:
        names = cluster.nodes if not text else (n for n in cluster.nodes if text in n.lower())
        return sorted(names, key=natural_key)

    def cells(self, cluster: ClusterModel, row: str, now: float) -> Line:
        node = cluster.nodes.get(row)
        if node is None:
            return ((row, "dim"), *[("", "")] * 7)
        pods = f"{cluster.use(row, 'pods'):,}/{node.allocatable.get('pods', 0):,}"
        others = (
            f"{name} {cluster.use(row, name):,}/{amount:,}"
            for name, amount in sorted(node.allocatable.items())
            if name not in USUAL and not (name.startswith("hugepages-") and not amount)
        )
        return (
            (row, ""),
            (node.labels.get(ZONE, ""), ""),
            _state(node),
            (pods, ""),
            _use(cluster, node, "cpu"),
            _use(cluster, node, "memory"),
            (", ".join(others), ""),
            (", ".join(node.taints), "dim"),
        )

    def into(self, row: str) -> View | None:
        return PodsOf(row)


class Pods(View):
    """All pods, pending ones first."""

    title = "pods"
    columns = (
        ScreenColumn("POD", 22, weight=2, middle=True),
        ScreenColumn("NODE", 8, weight=1, since=60, middle=True),
        ScreenColumn("PHASE", 9),
        ScreenColumn("PRIO", 6, right=True, since=90),
        ScreenColumn("AGE", 4, right=True),
        ScreenColumn("WHY IT IS PENDING", 17, weight=4, since=70),
    )

    def rows(self, cluster: ClusterModel, text: str, now: float, width: int) -> Sequence[str]:
        keys: Iterable[str] = cluster.pods
        if text:
            keys = [key for key in keys if text in _search_text(cluster, key)]
        return sorted(keys, key=lambda key: (bool(cluster.pods[key].node), key))

    def cells(self, cluster: ClusterModel, row: str, now: float) -> Line:
        pod = cluster.pods.get(row)
        if pod is None:
            return ((row, "dim"), *[("", "")] * 5)
        kind = "" if pod.node else "warn"
        return (
            (row, kind),
            (pod.node or "none", kind),
            _phase(pod),
            (f"{pod.priority:,}", ""),
            (_age(now - pod.created) if pod.created else "", ""),
            (_reason(pod), kind),
        )

    def into(self, row: str) -> View | None:
        return StoryOf(row)


class PodsOf(View):
    """The pods of a node that are not finished, with their requests."""

    columns = (
        ScreenColumn("POD", 22, weight=1, middle=True),
        ScreenColumn("PHASE", 9),
        ScreenColumn("CPU", 6, right=True, since=50),
        ScreenColumn("MEMORY", 8, right=True, since=60),
        ScreenColumn("PRIO", 6, right=True, since=70),
        ScreenColumn("AGE", 4, right=True),
    )

    def __init__(self, node: str) -> None:
        self.node = node
        self.title = f"pods of {node}"

    def head(self, cluster: ClusterModel, now: float) -> list[Line]:
        node = cluster.nodes.get(self.node)
        if node is None:
            return [(("There is no such node now.", "warn"),)]
        amounts = ", ".join(
            f"{name} {_amount(name, cluster.use(self.node, name))}/{_amount(name, amount)}"
            for name, amount in sorted(node.allocatable.items(), key=_resource_order)
            if amount
        )
        taints: Line = (("taints: " + ", ".join(node.taints), "warn"),)
        return [((f"requested: {amounts}", ""),), *[taints] * bool(node.taints)]

    def rows(self, cluster: ClusterModel, text: str, now: float, width: int) -> Sequence[str]:
        return sorted(key for key in cluster.on(self.node) if text in _search_text(cluster, key))

    def cells(self, cluster: ClusterModel, row: str, now: float) -> Line:
        pod = cluster.pods.get(row)
        if pod is None:
            return ((row, "dim"), *[("", "")] * 5)
        return (
            (row, ""),
            _phase(pod),
            (_amount("cpu", pod.requests.get("cpu", 0)), ""),
            (_amount("memory", pod.requests.get("memory", 0)), ""),
            (f"{pod.priority:,}", ""),
            (_age(now - pod.created) if pod.created else "", ""),
        )

    def into(self, row: str) -> View | None:
        return StoryOf(row)


class Queue(View):
    """The pods that wait for a node, by place."""

    title = "queue"
    columns = (
        ScreenColumn("POD", 22, weight=2, middle=True),
        ScreenColumn("PLACE", 8, weight=1),
        ScreenColumn("TRIES", 5, right=True, since=60),
        ScreenColumn("PRIO", 6, right=True, since=90),
        ScreenColumn("HELD BACK BY", 16, weight=2, since=50),
        ScreenColumn("WHY", 12, weight=4, since=100),
    )

    def head(self, cluster: ClusterModel, now: float) -> list[Line]:
        glance = cluster.glance
        if glance is None:
            return [(("Waiting for the scheduler.", "dim"),)]
        places: list[Cell] = []
        for word, number in (
            ("active", glance.active),
            ("backoff", glance.backoff),
            ("parked", glance.parked),
            ("gated", glance.gated),
            ("in flight", glance.in_flight),
        ):
            places.append((f"{word} {number:,}  ", "strong" if number else "dim"))
        waiting = f"{glance.on_permit:,} wait for a permit, {glance.in_pre_bind:,} for volumes"
        is_waiting = glance.on_permit + glance.in_pre_bind > 0
        binding = f"in binding: {waiting} or devices", "strong" if is_waiting else "dim"
        waited = cluster.waited(now)
        waits = "" if waited is None else f", waited {round(waited) or 'less than 1'} s"
        rate: Line = (
            (f"placed {cluster.rate(now):,.0f}/s{waits}  ", ""),
            (sparkline(cluster.placed(now)), ""),
        )
        lines: list[Line] = [tuple(places), (binding,), rate]
        if glance.rejections:
            reasons = "  ".join(f"{each.plugin} {each.pods:,}" for each in glance.rejections)
            lines.append(((f"held back by: {reasons}", "warn"),))
        return lines

    def rows(self, cluster: ClusterModel, text: str, now: float, width: int) -> Sequence[str]:
        pods = () if cluster.glance is None else cluster.glance.pods
        return [
            pod.key
            for pod in pods
            if text in pod.key.lower() or text in " ".join((pod.place, *pod.plugins)).lower()
        ]

    def cells(self, cluster: ClusterModel, row: str, now: float) -> Line:
        pods = () if cluster.glance is None else cluster.glance.pods
        pod = next((each for each in pods if each.key == row), None)
        if pod is None:
            return ((row, "dim"), *[("", "")] * 5)
        place = "parked" if pod.place == "unschedulable" else pod.place
        left = f", {pod.backoff_left:.1f} s" if pod.backoff_left > 0.05 else ""
        object_ = cluster.pods.get(row)
        why = "" if object_ is None else _reason(object_)
        why = f"waits on {pod.waits_on} for a permit" if pod.waits_on else why
        return (
            (row, ""),
            (f"{place}{left}", ""),
            (f"{pod.attempts:,}", ""),
            (f"{pod.priority:,}", ""),
            (", ".join(pod.plugins), "warn"),
            (why, ""),
        )

    def into(self, row: str) -> View | None:
        return StoryOf(row)


class StoryOf(View):
    """The view of a pod's story. `told` is the server's answer, once it has come."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.title = key
        self.told: Story | None = None
        self.problem = "Asking every plugin about every node."

    def rows(self, cluster: ClusterModel, text: str, now: float, width: int) -> Sequence[Line]:
        lines = [((self.problem, "dim"),)] if self.told is None else lines_of(self.told)
        return _rows_containing(list(wrapped_lines(lines, width)), text)

    def state(self, cluster: ClusterModel) -> tuple[str, str, str] | None:
        """Returns values that differ whenever the story has to be asked for again."""
        pod = cluster.pods.get(self.key)
        return None if pod is None else (pod.node, pod.phase, pod.message)


class HealthView(View):
    """The view of leadership, informers, the connection, and the news since the command began."""

    title = "health"

    def rows(self, cluster: ClusterModel, text: str, now: float, width: int) -> Sequence[Line]:
        glance = cluster.glance
        lines: list[Line] = [(("connection  ", "dim"), connection(cluster, now))]
        if glance is not None:
            leads = "leads" if glance.leads else "stands by: another process leads, or none yet"
            lines.append((("lease       ", "dim"), (leads, "good" if glance.leads else "warn")))
            problems = cluster.problems()
            lines.append(
                (("health      ", "dim"), ("not ok", "bad") if problems else ("ok", "good"))
            )
            lines += [((f"  {problem}", "bad"),) for problem in problems]
        lines += [(("", ""),), (("What happened, latest first", "head"),)]
        for news in reversed(cluster.news):
            at = datetime.fromtimestamp(news.at).astimezone().strftime("%H:%M:%S")
            lines.append(((f"  {at} ", "dim"), (news.text, "")))
        return _rows_containing(list(wrapped_lines(lines, width)), text)


class Help(View):
    """The view of the keys."""

    title = "keys"
    KEYS = (
        ("1", "cluster: the nodes and what is requested of them"),
        ("2", "queue: the pods that wait, and why"),
        ("3", "pods: all pods, pending ones first"),
        ("4", "health: leadership, informers, what happened"),
        (":", "a view by its name, such as :pods; :q quits"),
        ("Enter d", "open: a node's pods, a pod's story"),
        ("Esc", "back; first leaves the filter"),
        ("/", "filter the rows"),
        ("r", "tell the story again"),
        ("j k arrows", "one row down or up"),
        ("PgUp PgDn", "a screen; also Ctrl-B, Ctrl-F"),
        ("g G", "first and last row; also Home, End"),
        ("?", "this page"),
        ("q Ctrl-C", "quit"),
    )

    def rows(self, cluster: ClusterModel, text: str, now: float, width: int) -> Sequence[Line]:
        lines: list[Line] = [((f"{key:<11}", "strong"), (words, "")) for key, words in self.KEYS]
        return _rows_containing(list(wrapped_lines(lines, width)), text)


ROOTS: dict[str, Callable[[], View]] = {"1": Nodes, "2": Queue, "3": Pods, "4": HealthView}


def status_line(cluster: ClusterModel, now: float) -> Line:
    """Returns the line that is shown above all views."""
    cells: list[Cell] = [connection(cluster, now)]
    if cluster.glance is not None and not cluster.lost:
        cells.append(("leading", "good") if cluster.glance.leads else ("standing by", "warn"))
        problems = cluster.problems()
        cells.append(
            (number_of_things(len(problems), "problem"), "bad") if problems else ("ok", "good")
        )
    pending = cluster.pending()
    cells.append((f"{len(cluster.pods) - pending:,} placed", ""))
    cells.append((f"{pending:,} pending", "warn" if pending else ""))
    cells.append((f"{cluster.rate(now):,.0f}/s", ""))
    return tuple(part for cell in cells for part in (cell, ("  ", "")))[:-1]


def connection(cluster: ClusterModel, now: float) -> Cell:
    if cluster.lost:
        return f"no connection: {cluster.lost}", "bad"
    if cluster.heard is None:
        return "connecting", "warn"
    if quiet := cluster.quiet(now):
        return f"no news for {quiet:.0f} s", "bad"
    return "live", "good"


def natural_key(text: str) -> list[tuple[bool, int, str]]:
    """Returns a sort key that orders node-2 before node-10."""
    return [
        (part.isdecimal(), int(part), "") if part.isdecimal() else (False, 0, part)
        for part in _NUMBERS.split(text)
    ]


def _rows_containing(lines: Sequence[Line], text: str) -> Sequence[Line]:
    if not text:
        return lines
    return [line for line in lines if text in "".join(cell for cell, _ in line).lower()]


def _search_text(cluster: ClusterModel, key: str) -> str:
    pod = cluster.pods[key]
    return f"{key} {pod.node} {pod.phase} {pod.message}".lower()


def _resource_order(item: tuple[str, int]) -> tuple[int, str]:
    return (USUAL.index(item[0]) if item[0] in USUAL else len(USUAL)), item[0]


def _phase(pod: PodRow) -> Cell:
    kind = "bad" if pod.phase == "Failed" else "" if pod.node else "warn"
    return pod.phase or "Pending", kind


def _reason(pod: PodRow) -> str:
    """Returns why the pod is pending, without the number of nodes, to save room."""
    return _NODES_COUNTED.sub("", pod.message)


def _state(node: NodeRow) -> Cell:
    if node.problems:
        return ",".join(node.problems), "bad"
    return ("cordoned", "warn") if node.cordoned else ("ready", "")


def _use(cluster: ClusterModel, node: NodeRow, resource: str) -> Cell:
    whole = node.allocatable.get(resource, 0)
    if not whole:
        return "", ""
    share = cluster.use(node.name, resource) / whole
    kind = "bad" if share >= FULL else "warn" if share >= NEARLY_FULL else ""
    return bar(share, BAR_WIDTH), kind


def _amount(resource: str, amount: int) -> str:
    if resource == "cpu":
        return f"{amount / 1000:g}"
    for power, unit in ((40, "Ti"), (30, "Gi"), (20, "Mi")):
        if amount >= 1 << power:
            return f"{amount / (1 << power):.4g}{unit}"
    return f"{amount:,}"


def _age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"
