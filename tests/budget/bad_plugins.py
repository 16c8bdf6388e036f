"""Holds a scheduler against plugins that misbehave, while other pods come all the time:
`python -m tests.budget.bad_plugins [--seconds 60] [--together] [CASE...]`.

A case is a way to misbehave and an extension point, such as sleeps:Filter; without any, all of
them. `berth run` and `berth apiserver` are processes. Each case has a plugin and a profile of its
own, with six pods that come again when they are bound; other pods belong to another profile.
With `--together`, one scheduler has the plugins of all cases; otherwise each case has a scheduler.
Prints how long the other pods waited for a node, what the scheduler's process grew by, and where
the breaker's story was told: in the log, an event, the metrics and the debug page.

Fails if a pod of the others waits longer than MOST_SECONDS, or memory grows by more than MOST_MIB
in the second half. Takes real time, and is no test.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic

import click
import msgspec
from aiohttp import ClientSession

from berth.actors.client.rest import ApiError, Client, Connection
from berth.actors.runtime.clock import SystemClock
from berth.actors.scheduling.kube.core import Pod
from tests.kit.cluster import ClusterClient, path_of, pods_seen
from tests.kit.documents import Document
from tests.kit.processes import ROOT, Berth, berth, free_port, install

WAYS = ("raises", "sleeps", "loops", "leaks")
POINTS = (
    *("PreEnqueue", "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "NormalizeScore"),
    *("Reserve", "Unreserve", "Permit", "PreBindPreFlight", "PreBind", "RollBack", "Bind"),
    *("PostBind", "QueueingHint", "Task", "Start"),
)
CASES = [f"{way}:{point}" for way in WAYS for point in POINTS]
INNOCENT_EVERY = 0.25  # seconds between two pods of the others
BAD_PODS = 6
MOST_SECONDS = 60.0
MOST_MIB = 64.0
SOURCE = """
import time

from berth.plugin import *

KEPT = []


class Bad(
    PreEnqueuePlugin, PreFilterPlugin, NodeFilterPlugin, PostFilterPlugin, PreScorePlugin,
    NodeScorePlugin, ReservePlugin, PermitPlugin, PreBindPlugin, BindPlugin, PostBindPlugin,
):
    way = point = ""

    def at(self, point, *args):
        if point != self.point:
            return
        if self.way == "raises":
            raise RuntimeError("it raises")
        if self.way == "sleeps":
            time.sleep(1.5)
        while self.way == "loops":
            pass
        if self.way == "leaks":
            KEPT.append((bytearray(10_000), args))

    async def start(self, scope):
        self.at("Start")
        scope.every(1, lambda: self.at("Task"))

    def pre_enqueue(self, pod):
        self.at("PreEnqueue", pod)
        return SUCCESS

    def pre_filter(self, state, info, snapshot):
        self.at("PreFilter", state, info, snapshot)
        return SUCCESS

    def filter_node(self, state, info, node):
        self.at("Filter", state, info, node)
        rejects = self.point in ("PostFilter", "QueueingHint")
        return unschedulable("full") if rejects else SUCCESS

    def post_filter(self, attempt):
        self.at("PostFilter", attempt)
        return PostFiltered(unschedulable("nothing helps"))

    def pre_score(self, state, info, nodes):
        self.at("PreScore", state, info, nodes)
        return SUCCESS

    def score_node(self, state, info, node):
        self.at("Score", state, info, node)
        return 1

    def normalize_scores(self, state, info, scores):
        self.at("NormalizeScore", state, info)
        return scores

    def reserve(self, state, info, node):
        self.at("Reserve", state, info)
        return SUCCESS

    def unreserve(self, state, info, node):
        self.at("Unreserve", state, info)

    def permit(self, state, info, node):
        self.at("Permit", state, info)
        return (unschedulable("no") if self.point == "Unreserve" else SUCCESS), 0.0

    def pre_bind_pre_flight(self, state, info, node):
        self.at("PreBindPreFlight", state, info)
        return PreBindPreFlightResult(allow_parallel=False)

    async def pre_bind(self, state, info, node):
        self.at("PreBind", state, info)
        return error("no") if self.point == "RollBack" else SUCCESS

    async def roll_back(self, state, info, node):
        self.at("RollBack", state, info)

    async def bind(self, state, info, node):
        self.at("Bind", state, info)
        return SKIP

    def post_bind(self, state, info, node):
        self.at("PostBind", state, info)

    def events_to_register(self):
        def hint(pod, old, new):
            self.at("QueueingHint", pod, old, new)
            return Hint.QUEUE if self.point == "PostFilter" else Hint.SKIP

        return (Registration(ClusterEvent(Resource.ASSIGNED_POD, Action.ALL), hint),)
"""


class Outcome(msgspec.Struct):
    """What was seen of a scheduler. Times are in seconds, memory is in MiB; `mebibytes` are those
    at the beginning, in the middle and at the end. `told` are the places of the story, by plugin.
    `waits` are the pods of the others: when each came, since the beginning, and how long it waited.
    """

    waits: list[tuple[float, float]]
    late: int
    mebibytes: tuple[float, float, float]
    told: dict[str, list[str]]
    ended: bool

    def row(self, name: str) -> str:
        waits = sorted(wait for _, wait in self.waits) or [0.0]
        median, most = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
        first, middle, last = self.mebibytes
        told = " ".join(",".join(places) or "-" for places in self.told.values())
        return (
            f"{name:24} {len(waits):6} pods  waits: median {median:.3f}, 99 % {most:.2f}, longest"
            f" {waits[-1]:.2f}, never {self.late}  RSS {first:.0f} {middle:.0f} {last:.0f} MiB"
            f"  {told if len(self.told) == 1 else ''}{'  ENDED' if self.ended else ''}"
        )

    def tenths(self) -> Iterator[str]:
        """Yields a line for each tenth of the time."""
        seconds = max((came for came, _ in self.waits), default=0.0) / 10 or 1.0
        for number in range(10):
            waits = sorted(wait for came, wait in self.waits if came // seconds == number) or [0.0]
            yield (
                f"  from {number * seconds:5.0f} s: {len(waits):5} pods, median"
                f" {waits[len(waits) // 2]:.3f}, longest {waits[-1]:.2f}"
            )

    @property
    def is_good(self) -> bool:
        grown = self.mebibytes[2] - self.mebibytes[1]
        slow = self.late or max((wait for _, wait in self.waits), default=0.0) > MOST_SECONDS
        return not (slow or self.ended or grown > MOST_MIB)


class Load:
    """Pods that come all the time, and the time at which each got a node."""

    def __init__(self, access: ClusterClient, cases: Iterable[str]) -> None:
        self.access = access
        self.cases = list(cases)
        self.began = monotonic()
        self.made: dict[str, float] = {}
        self.waits: list[tuple[float, float]] = []
        self.bad: dict[str, set[str]] = {case: set() for case in self.cases}
        self.gone: asyncio.Queue[str] = asyncio.Queue()

    async def follow(self) -> None:
        async for pod in pods_seen(self.access.client, SystemClock()):
            self._note(pod)

    def _note(self, pod: Pod) -> None:
        name = pod.metadata.name
        if not pod.spec.node_name:
            return
        made = self.made.pop(name, None)
        if made is not None:
            self.waits.append((made - self.began, monotonic() - made))
            self.gone.put_nowait(name)
        for names in self.bad.values():
            if name in names:
                names.discard(name)
                self.gone.put_nowait(name)

    async def delete(self) -> None:
        while True:
            name = await self.gone.get()
            at_once = {"gracePeriodSeconds": 0}  # there is no kubelet to end it
            with suppress(ApiError):
                await self.access.client.call("DELETE", path_of("Pod", name), dict, at_once)

    async def innocents(self, seconds: float) -> None:
        end, number = monotonic() + seconds, 0
        while monotonic() < end:
            name = f"good-{number}"
            self.made[name] = monotonic()
            await self.access.create("Pod", pod(name, "default-scheduler"))
            number += 1
            await asyncio.sleep(INNOCENT_EVERY)

    async def guilty(self) -> None:
        number = 0
        while True:
            for case, names in self.bad.items():
                while len(names) < BAD_PODS:
                    name = f"bad-{number}"
                    number += 1
                    names.add(name)
                    await self.access.create("Pod", pod(name, scheduler_of(case)))
            await asyncio.sleep(1)


def scheduler_of(case: str) -> str:
    return case.replace(":", "-").lower()


def plugin_of(case: str) -> str:
    return case.replace(":", "").capitalize()


def pod(name: str, scheduler: str) -> Document:
    container = {"name": "c", "image": "app", "resources": {"requests": {"cpu": "10m"}}}
    spec = {"schedulerName": scheduler, "containers": [container]}
    return {"metadata": {"name": name}, "spec": spec}


def mebibytes(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", text)
    return int(found[1]) / 1024 if found else 0.0


def configured(folder: Path, cases: Iterable[str]) -> tuple[Path, Path]:
    """Writes the package of the plugins and the configuration; returns their paths."""
    site, source = folder / "site", SOURCE
    entries = {}
    profiles: list[Document] = [{"schedulerName": "default-scheduler"}]
    for case in cases:
        name, (way, point) = plugin_of(case), case.split(":")
        source += f"\n\nclass {name}(Bad):\n    name, way, point = {name!r}, {way!r}, {point!r}\n"
        entries[name] = f"bad:{name}"
        first = [{"name": name}, {"name": "DefaultBinder"}]
        bad = {
            "multiPoint": {"enabled": [{"name": name}]},
            "bind": {"enabled": first, "disabled": [{"name": "*"}]},
        }
        profiles.append({"schedulerName": scheduler_of(case), "plugins": bad})
    install(site, "bad", source, **entries)
    file = folder / "scheduler.json"
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": profiles,
    }
    file.write_text(json.dumps(document))
    return site, file


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[ClusterClient]:
    port = free_port()
    program = (str(ROOT / ".venv/bin/berth"),)
    flags = ("apiserver", f"--port={port}", "--compaction-interval=60")
    async with berth(folder, *flags, program=program) as server:
        await server.says("127.0.0.1")
        url = f"http://127.0.0.1:{port}"
        async with Client(Connection(url)) as client:
            access = ClusterClient(client, url)
            for number in range(4):
                allocatable = {"cpu": "64", "memory": "256Gi", "pods": "2000"}
                node = {"metadata": {"name": f"n{number}"}, "status": {"allocatable": allocatable}}
                await access.create("Node", node)
            yield access


async def tried(cases: list[str], seconds: float, folder: Path) -> Outcome:
    site, file = configured(folder, cases)
    async with served(folder) as access:
        port = free_port()
        flags = ("run", f"--master={access.url}", f"--config={file}", f"--secure-port={port}")
        more = ("--bind-address=127.0.0.1", "--authorization-always-allow-paths=/*", "--v=1")
        program = (str(ROOT / ".venv/bin/berth"),)
        async with berth(folder, *flags, *more, program=program, site=site) as scheduler:
            await scheduler.says("Serving securely on")
            return await loaded(Load(access, cases), scheduler, port, seconds)


async def loaded(load: Load, scheduler: Berth, port: int, seconds: float) -> Outcome:
    tasks = [asyncio.ensure_future(each) for each in (load.follow(), load.delete())]
    innocents = asyncio.ensure_future(load.innocents(seconds))
    await asyncio.sleep(2)
    tasks.append(asyncio.ensure_future(load.guilty()))
    seen = [mebibytes(scheduler.pid)]
    await asyncio.sleep(seconds / 2)
    seen.append(mebibytes(scheduler.pid) if scheduler.is_running else 0.0)
    pages: dict[str, str] = {}
    await innocents
    late = monotonic() + MOST_SECONDS
    while load.made and monotonic() < late and scheduler.is_running:
        await asyncio.sleep(0.1)
    ended = not scheduler.is_running
    seen.append(0.0 if ended else mebibytes(scheduler.pid))
    if not ended:
        pages = await read_pages(port)
    events = await load.access.all("Event")
    told = {case: places(case, scheduler.output, events, pages) for case in load.cases}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return Outcome(load.waits, len(load.made), (seen[0], seen[1], seen[2]), told, ended)


async def read_pages(port: int) -> dict[str, str]:
    """Returns /metrics and /debug/plugins, "" for one that does not answer."""
    found = {}
    async with ClientSession() as session:
        for path in ("/metrics", "/debug/plugins"):
            try:
                async with asyncio.timeout(30):
                    url = f"https://127.0.0.1:{port}{path}"
                    async with session.get(url, ssl=False) as answer:
                        found[path] = await answer.text()
            except TimeoutError:
                found[path] = ""
    return found


def places(case: str, log: str, events: list[Document], pages: dict[str, str]) -> list[str]:
    """Returns where it is told that the case's plugin was switched off."""
    name = plugin_of(case)
    lines = [line for line in log.splitlines() if "plugin switched off" in line and name in line]
    noted = [str(each) for each in events if each["reason"] == "PluginSwitchedOff"]
    page = pages.get("/debug/plugins", "")
    of_it = [line for line in page.splitlines() if name in line]
    counts = {
        "log": bool(lines),
        "event": any(f"plugin {name} " in event for event in noted),
        "metric": f'berth_plugin_switched_off{{plugin="{name}"' in pages.get("/metrics", ""),
        "debug": any("open" in line or "probing" in line or "closed" in line for line in of_it),
    }
    return [place for place, is_there in counts.items() if is_there]


@click.command()
@click.argument("cases", nargs=-1)
@click.option("--seconds", default=60.0, show_default=True, help="How long pods come.")
@click.option("--together", is_flag=True, help="All cases in one scheduler.")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Keep logs and plugins of one run there."
)
def main(cases: tuple[str, ...], seconds: float, together: bool, folder: Path | None) -> None:
    """Hold a scheduler against plugins that misbehave."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = list(cases) or CASES
    runs = [chosen] if together else [[case] for case in chosen]
    good = True
    for run in runs:
        with tempfile.TemporaryDirectory() as name:
            outcome = asyncio.run(tried(run, seconds, folder or Path(name)))
        click.echo(outcome.row(run[0] if len(run) == 1 else f"{len(run)} plugins"))
        if together:
            for line in outcome.tenths():
                click.echo(line)
            for case, told in outcome.told.items():
                click.echo(f"  {case:24} {','.join(told) or '-'}")
        good = good and outcome.is_good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
