"""`berth demo`: a toy cluster in one process, and a workload placed on it."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import anyio
import click
import msgspec
import structlog
from rich.console import Console
from rich.table import Table

from actors.client.rest import ApiError, Client, Connection
from actors.runtime.clock import SystemClock
from actors.system import run_scheduler
from config.types import KubeSchedulerConfiguration
from tools.apiserver.app import serve
from tools.apiserver.kubeconfig import kubeconfig
from tools.apiserver.resources import BY_PATH, Kind
from tools.hollow.kubelet import hollow_node, run_kubelets
from tools.manifests import ManifestError, read

SAMPLE = Path(__file__).parent / "sample.yaml"
NODES = BY_PATH["", "v1", "nodes"]
SETTLED_SECONDS = 0.5
Document = dict[str, Any]


class Row(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    node: str
    phase: str
    message: str


class Summary(msgspec.Struct, frozen=True):
    pods: list[Row]
    placed: int
    pending: int


@click.command()
@click.option("-f", "--filename", "paths", multiple=True, type=click.Path(exists=True, path_type=Path),
              help="A manifest, or a folder of them; repeatable. Without it, a built-in sample.")  # fmt: skip
@click.option("--nodes", default=6, show_default=True, type=click.IntRange(0, 10_000), help="How many hollow nodes.")
@click.option("--keep", is_flag=True, help="Stay up until interrupted, for kubectl.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port of the API server; 0 takes a free one.")
@click.option("--kubeconfig-out", type=click.Path(path_type=Path), help="Write a kubeconfig for kubectl to this file.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def demo(paths: tuple[Path, ...], nodes: int, keep: bool, port: int, kubeconfig_out: Path | None, output: str) -> None:
    """Start an API server, hollow nodes and the scheduler in this process, and place pods.

    Ends once every pod is placed or known not to fit, with the table of pods; exit code 0.
    """
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger("warning"),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        manifests = read(paths or (SAMPLE,))
        summary = anyio.run(_run, manifests, nodes, keep, port, kubeconfig_out, backend_options={"use_uvloop": True})
    except KeyboardInterrupt:
        return
    except (ManifestError, ApiError) as problem:
        raise click.ClickException(str(problem)) from None
    except OSError as problem:
        raise click.ClickException(f"cannot start: {problem.strerror or problem}") from None
    if output == "json":
        click.echo(msgspec.json.encode(summary).decode())
    else:
        _show(summary)


async def _run(
    manifests: list[tuple[Kind, Document]], nodes: int, keep: bool, port: int, kubeconfig_out: Path | None
) -> Summary:
    """Bring the cluster up, apply the manifests, and wait until nothing is left to decide."""
    clock, rng = SystemClock(), Random()
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(serve(port))
        client = await stack.enter_async_context(Client(Connection(url)))
        if kubeconfig_out is not None:
            await anyio.Path(kubeconfig_out).write_text(kubeconfig(url))
        click.echo(f"API server at {url}; try: kubectl --server {url} get pods -o wide", err=True)
        for number in range(1, nodes + 1):
            await _apply(client, NODES, hollow_node(number))
        for kind, document in sorted(manifests, key=lambda found: found[0].kind == "Pod"):
            await _apply(client, kind, document)
        group = await stack.enter_async_context(anyio.create_task_group())
        await group.start(run_kubelets, client, clock, rng)
        await group.start(run_scheduler, KubeSchedulerConfiguration(), Connection(url), clock, rng)
        summary = await _settled(client)
        if keep:
            _show(summary)
            await anyio.sleep_forever()
        group.cancel_scope.cancel()
    return summary


async def _apply(client: Client, kind: Kind, document: Document) -> None:
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    namespace = document["metadata"].get("namespace", "default")
    path = f"{base}/namespaces/{namespace}/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"
    try:
        await client.call("POST", path, dict, document)
    except ApiError as refused:
        raise ManifestError(f"{kind.kind} {document['metadata'].get('name', '')}: {refused}") from None


async def _settled(client: Client) -> Summary:
    """Wait until every pod runs or is known not to fit, and nothing has changed for a moment."""
    last, since = None, anyio.current_time()
    while True:
        summary = summarise((await client.call("GET", "/api/v1/pods", dict))["items"])
        decided = all(row.phase == "Running" or (row.message and not row.node) for row in summary.pods)
        if summary != last or not decided:
            last, since = summary, anyio.current_time()
        elif anyio.current_time() - since > SETTLED_SECONDS:
            return summary
        await anyio.sleep(0.05)


def summarise(pods: list[Document]) -> Summary:
    """The pods as rows; the message is why a pod is pending."""
    rows = []
    for pod in pods:
        conditions = pod["status"].get("conditions", ())
        why = next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")
        metadata, node = pod["metadata"], pod["spec"].get("nodeName", "")
        rows.append(Row(metadata["namespace"], metadata["name"], node, pod["status"]["phase"], "" if node else why))
    placed = sum(bool(row.node) for row in rows)
    return Summary(rows, placed, len(rows) - placed)


def _show(summary: Summary) -> None:
    table = Table(title="pods")
    for column in ("namespace", "name", "node", "phase", "why it is pending"):
        table.add_column(column, overflow="fold")
    for row in summary.pods:
        table.add_row(*msgspec.structs.astuple(row), style=None if row.node else "yellow")
    console = Console()
    console.print(table)
    console.print(f"{summary.placed} placed, {summary.pending} pending")
