"""A run: an API server whose wire has faults, schedulers with a lease, and clients, all of them
processes or connections on loopback.
"""

from __future__ import annotations

import signal
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import aiohttp
import anyio
import msgspec

from berth.actors.client.rest import Client, Connection
from berth.actors.client.silence import SILENCE_SECONDS
from berth.actors.client.watch import ObjectChanged, ObjectsListed, Reflector
from berth.actors.runtime.clock import SystemClock
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.requests import pod_requests

from ...cluster.apiserver.kubeconfig import kubeconfig
from ...cluster.faults.vocabulary import Fault
from .program import ChaosProgram
from .troubles import OF_PROCESSES, OF_SCHEDULERS, troubles
from .workload import PODS, Workload

# Until every pod that fits must be bound: a client knows of a silent watch after SILENCE_SECONDS,
# which is the longest that a fault goes unnoticed; then it asks again, and the pod has a backoff.
CALM_SECONDS = SILENCE_SECONDS + 30.0
LOOK_SECONDS = 1.0
CPU_OF_NODE = 8000  # milli-CPUs
ELECTION = (
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=1s",
)
CRASH = "Traceback (most recent call last)"
READY = {"apiserver": "API server at ", "run": "Attempting to acquire leader lease"}


class Trouble(msgspec.Struct, frozen=True):
    """A fault of a run, and the second at which it began."""

    at: float
    fault: Fault


class ChaosResult(msgspec.Struct, frozen=True):
    """What came of a run. `problems` are what should not be; `met` counts faults on the wire, and
    `starts` those of each process.
    """

    seconds: float
    writes: int
    bound: int
    troubles: tuple[Trouble, ...]
    met: dict[str, int]
    starts: dict[str, int]
    leaders: int
    problems: tuple[str, ...]


class Chaos:
    """One run of so many seconds. `folder` keeps the processes' output and the objects."""

    def __init__(
        self,
        folder: Path,
        seconds: float,
        seed: int = 1,
        schedulers: int = 2,
        nodes: int = 10,
        faults: tuple[Fault, ...] = (),
    ) -> None:
        """`faults` are in force from the beginning, beside those of the seed."""
        self._folder, self._seconds, self._seed = folder, seconds, seed
        self._nodes, self._first = nodes, faults
        self._file = folder / "kubeconfig"
        data = str(folder / "objects")
        port, control = _free_port(), _free_port()
        self._control = f"http://127.0.0.1:{control}/faults"
        self._url = f"http://127.0.0.1:{port}"
        serve = ("apiserver", f"--port={port}", f"--data={data}", f"--faults-port={control}")
        self._server = ChaosProgram("apiserver", folder, serve, READY["apiserver"])
        run = ("run", f"--kubeconfig={self._file}", "--secure-port=0", "-v=2", *ELECTION)
        self._schedulers = [
            ChaosProgram(f"scheduler-{number}", folder, run, READY["run"])
            for number in range(schedulers)
        ]
        self._nodes_of: dict[str, list[str]] = {}
        self._pods: dict[str, Pod] = {}
        self._troubles: list[Trouble] = []
        self._one_at_a_time = anyio.Lock()
        self._met: Counter[str] = Counter()
        self._problems: list[str] = []

    async def run(self) -> ChaosResult:
        """Plays the run. Raises ProgramError and OSError."""
        self._file.write_text(kubeconfig(self._url), encoding="utf-8")
        self._began = monotonic()
        try:
            async with AsyncExitStack() as stack:
                self._session = await stack.enter_async_context(aiohttp.ClientSession())
                await self._server.start()
                connection = Connection(self._url)
                client = await stack.enter_async_context(Client(connection, agent="chaos"))
                watching = await stack.enter_async_context(Client(connection, agent="observer"))
                workload = Workload(client, Random(self._seed), self._nodes)
                await workload.begin()
                group = await stack.enter_async_context(anyio.create_task_group())
                group.start_soon(self._follow, watching)
                for scheduler in self._schedulers:
                    await scheduler.start()
                await self._add(tuple(f for f in self._first if f.does not in OF_SCHEDULERS))
                with anyio.move_on_after(self._seconds):
                    async with anyio.create_task_group() as busy:
                        busy.start_soon(workload.run)
                        busy.start_soon(self._make_trouble)
                        for fault in self._first:
                            if fault.does in OF_SCHEDULERS:
                                busy.start_soon(self._make_later, fault)
                await self._calm()
                await self._check(workload, client)
                self._check_crashes()
                group.cancel_scope.cancel()
        finally:
            for program in (*self._schedulers, self._server):
                program.kill()
        return self._result(workload)

    def _result(self, workload: Workload) -> ChaosResult:
        programs = (self._server, *self._schedulers)
        return ChaosResult(
            round(monotonic() - self._began, 1),
            workload.writes,
            len(self._nodes_of),
            tuple(self._troubles),
            dict(self._met),
            {program.name: program.starts for program in programs},
            sum(each.count("Successfully acquired lease") for each in self._schedulers),
            tuple(self._problems),
        )

    # ------------------------------------------------------------------------------- trouble

    async def _make_trouble(self) -> None:
        for pause, fault in troubles(self._seed, len(self._schedulers)):
            await anyio.sleep(pause)
            await self._make(fault)

    async def _make_later(self, fault: Fault) -> None:
        await anyio.sleep(fault.begin)
        await self._make(fault)

    async def _make(self, fault: Fault) -> None:
        async with self._one_at_a_time:
            await self._start_ended()
            self._troubles.append(Trouble(round(monotonic() - self._began, 1), fault))
            if fault.does in OF_PROCESSES:
                self._met[fault.does] += 1
                await self._hit(fault)
            else:
                await self._add((fault,))

    async def _hit(self, fault: Fault) -> None:
        """Does to a process what a fault says. It runs again afterwards, or when the run ends."""
        if fault.does == "stop":
            scheduler = self._schedulers[fault.number]
            scheduler.send(signal.SIGSTOP)
            try:
                await anyio.sleep(fault.seconds)
            finally:
                scheduler.send(signal.SIGCONT)
            return
        if fault.does == "kill":
            hit = self._schedulers[fault.number]
        else:
            await self._count()
            hit = self._server
        hit.kill()
        try:
            await anyio.sleep(fault.seconds)
        finally:
            with anyio.CancelScope(shield=True):
                await hit.start()

    async def _add(self, faults: tuple[Fault, ...]) -> None:
        if faults:
            body = msgspec.json.encode({"faults": faults})
            async with self._session.post(self._control, data=body) as answer:
                if answer.status != 200:
                    self._problems.append(f"the control refused a fault: {await answer.text()}")

    async def _count(self) -> None:
        """Adds what the server has counted, which it forgets when it is killed."""
        async with self._session.get(self._control) as answer:
            self._met.update((await answer.json())["met"])

    async def _calm(self) -> None:
        """Ends all faults."""
        await self._count()
        async with self._session.delete(self._control) as answer:
            assert answer.status == 200
        await self._start_ended()

    async def _start_ended(self) -> None:
        """Starts the schedulers that have ended by themselves, as after the loss of a lease."""
        for scheduler in self._schedulers:
            if scheduler.has_ended:
                await scheduler.start()

    # ------------------------------------------------------------------------- what must hold

    async def _follow(self, client: Client) -> None:
        """Notes the nodes of each pod, by its uid."""
        pods = Reflector(client, PODS, Pod, SystemClock(), Random(0))
        async for told in pods.changes():
            match told:
                case ObjectsListed(items):
                    for item in items:
                        self._note(item)
                case ObjectChanged(item):
                    self._note(item)
                case _:
                    pass

    def _note(self, pod: Pod) -> None:
        if pod.spec.node_name:
            nodes = self._nodes_of.setdefault(pod.metadata.uid, [])
            if pod.spec.node_name in nodes:
                return
            nodes.append(pod.spec.node_name)
            if len(nodes) > 1:
                self._problems.append(f"{pod.metadata.name} was bound to {' and to '.join(nodes)}")

    async def _check(self, workload: Workload, client: Client) -> None:
        """Waits until every pod that fits is bound, and checks the cluster."""
        ends = monotonic() + CALM_SECONDS
        while True:
            pods = await self._listed(client)
            used: Counter[str] = Counter()
            for pod in pods.values():
                if pod.spec.node_name:
                    used[pod.spec.node_name] += pod_requests(pod)["cpu"]
            rooms = [CPU_OF_NODE - used[f"node-{number}"] for number in range(self._nodes)]
            waiting = [pod for pod in pods.values() if not pod.spec.node_name]
            fitting = [pod for pod in waiting if pod_requests(pod)["cpu"] <= max(rooms)]
            if not fitting or monotonic() > ends:
                break
            await anyio.sleep(LOOK_SECONDS)
        report = self._problems.append
        for pod in fitting:
            report(f"{pod.metadata.name} fits, and is pending after {CALM_SECONDS:g} s")
        for node, amount in used.items():
            if amount > CPU_OF_NODE:
                report(f"{node} is overcommitted: {amount} of {CPU_OF_NODE} milli-CPUs")
        for name in sorted(workload.alive.keys() - pods.keys()):
            report(f"{name} was acknowledged, and is lost")
        for name in sorted(workload.gone & pods.keys()):
            report(f"{name} was deleted, and is there again")

    def _check_crashes(self) -> None:
        """Looks for tracebacks: whatever happens to a process, it has words for it."""
        for program in (self._server, *self._schedulers):
            if program.count(CRASH):
                self._problems.append(f"{program.name} crashed: {program.name}.log has a traceback")

    async def _listed(self, client: Client) -> dict[str, Pod]:
        answer: dict[str, Any] = await client.call("GET", PODS, dict)
        pods = msgspec.convert(answer["items"], list[Pod], strict=False)
        return {pod.metadata.name: pod for pod in pods}


def _free_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port
