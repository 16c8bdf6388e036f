"""The tools of `berth mcp`: the commands that answer questions, each call in a process of its own.

An assistant names pods, steps and manifests, but neither files nor addresses: those are options of
the server. The protocol is the work of the official SDK, an extra of the package.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import click
import msgspec
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from berth.actors.process.version import BERTH

from .doctor import doctor
from .explain import explain
from .whatif import whatif
from .why import why

INSTRUCTIONS = (
    "Answers questions about how Kubernetes places pods. The answers are computed by the"
    " scheduler's own code; nothing is written to a cluster."
)
MOST_SECONDS = 120.0  # of a command
MOST_ITEMS = 50  # of a list or a mapping in an answer; the rest is counted
FILE_STEPS = ("apply", "configure")  # steps that read a file of this machine
ANSWERS = (0, 1)  # exit codes of a command that has an answer


class Commands:
    """The commands with the options of the server: each gets those that it has."""

    def __init__(self, options: Mapping[str, object], seconds: float = MOST_SECONDS) -> None:
        self._options = {name: value for name, value in options.items() if value}
        self._seconds = seconds

    async def answer(
        self, command: click.Command, *words: str, manifests: str = "", **options: str
    ) -> dict[str, Any]:
        """Returns the JSON that a command answers, shortened. `words` are its arguments; options
        without a value are left out. `manifests` is YAML that is added to the cluster. Raises
        ToolError with the command's own words if it has no answer.
        """
        given = {name: value for name, value in options.items() if value}
        argv = [sys.executable, "-m", "berth.actors", command.name or "", "--output=json"]
        argv += [*self._given_to(command), *_as_options(given)]
        argv += ["--filename=-"] if manifests else []
        try:
            with anyio.fail_after(self._seconds):
                done = await anyio.run_process(
                    [*argv, "--", *words],
                    input=manifests.encode(),
                    check=False,
                    stderr=subprocess.PIPE,
                )
        except TimeoutError:
            raise ToolError(f"no answer within {self._seconds:g} s") from None
        if done.returncode not in ANSWERS or not done.stdout:
            raise ToolError(done.stderr.decode(errors="replace").strip() or "no answer")
        answer = msgspec.json.decode(done.stdout)
        short: dict[str, Any] = shortened(answer if isinstance(answer, dict) else {"items": answer})
        return short

    def _given_to(self, command: click.Command) -> list[str]:
        known = {
            option.removeprefix("--").replace("-", "_")
            for parameter in command.params
            for option in parameter.opts
        }
        return _as_options({n: v for n, v in self._options.items() if n in known})


def _as_options(values: Mapping[str, object]) -> list[str]:
    words = []
    for name, value in values.items():
        option = f"--{name.replace('_', '-')}"
        several = value if isinstance(value, tuple) else (value,)
        words += [option if each is True else f"{option}={each}" for each in several]
    return words


def shortened(value: Any) -> Any:
    """Returns a JSON value with at most MOST_ITEMS items in each list and mapping; what is left out
    is counted, so that an assistant can read an answer about thousands of nodes.
    """
    if isinstance(value, dict):
        kept = {name: shortened(item) for name, item in [*value.items()][:MOST_ITEMS]}
        more = len(value) - len(kept)
        return {**kept, "...": f"{more} more"} if more else kept
    if isinstance(value, list):
        shown = [shortened(item) for item in value[:MOST_ITEMS]]
        return [*shown, f"... {len(value) - MOST_ITEMS} more"] if len(value) > MOST_ITEMS else shown
    return value


def server_of(commands: Commands) -> MCPServer:
    """Returns the server with its tools."""
    reads = ToolAnnotations(read_only_hint=True, idempotent_hint=True)
    server = MCPServer("berth", instructions=INSTRUCTIONS, version=BERTH)

    @server.tool(annotations=reads)
    async def explain_pod(
        pod: str = "", namespace: str = "", manifests: str = ""
    ) -> dict[str, Any]:
        """Say where a pod would be placed and why, and the smallest changes after which it fits.

        pod: [NAMESPACE/]NAME, or KIND/NAME for the next pod of a workload; without it, each pending
        pod of the namespace. manifests: YAML of objects to add to the cluster first.
        """
        words = (pod,) if pod else ()
        return await commands.answer(explain, *words, namespace=namespace, manifests=manifests)

    @server.tool(annotations=reads)
    async def what_if(
        steps: Sequence[str], namespace: str = "", manifests: str = ""
    ) -> dict[str, Any]:
        """Try steps on a copy of the cluster, and say where pods land, which stay pending and why,
        and which are evicted or lost.

        steps: such as "add 3 like node-1", "remove node-1", "drain node-1", "cordon node-1",
        "taint node-1 key=value:NoSchedule", "scale deployment/web 50", "delete shop/web-1",
        "evict shop/web-1 shop/web-2" (a set of pods, as disruption budgets allow).
        """
        for step in steps:
            if step.split()[:1] and step.split()[0] in FILE_STEPS:
                raise ToolError(f"{step}: a step that reads a file; give `manifests` instead")
        return await commands.answer(whatif, *steps, namespace=namespace, manifests=manifests)

    @server.tool(annotations=reads)
    async def why_is_pod(pod: str, namespace: str = "", at: str = "") -> dict[str, Any]:
        """Say from a running scheduler's records why a pod is on its node, or why it waits.

        at: the last attempt up to this time, in ISO 8601.
        """
        return await commands.answer(why, pod, namespace=namespace, at=at)

    @server.tool(annotations=reads)
    async def find_forgotten_pods(pod: str = "") -> dict[str, Any]:
        """Find parked pods of a running scheduler that would fit. It takes ten seconds."""
        return await commands.answer(doctor, *((pod,) if pod else ()))

    return server
