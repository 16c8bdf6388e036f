"""`berth demo`: a toy cluster in one process, on which a workload is placed."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Set
from contextlib import AsyncExitStack, nullcontext
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import click
import msgspec
from anyio.abc import TaskGroup
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from berth.actors.client.rest import (
    ApiError,
    Client,
    Connection,
)
from berth.actors.configuration.file import load_file
from berth.actors.runtime.clock import SystemClock
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.meta import key
from berth.actors.scheduling.kube.reading import Reader
from berth.actors.system import run_scheduler
from berth.actors.telemetry.logs import configure_logs
from berth.config.feature_gates import FeatureGateError
from berth.config.load import from_mapping
from berth.config.options import (
    Authentication,
    Authorization,
    Options,
    SecureServing,
)

from ..apiserver.app import serve
from ..apiserver.kubeconfig import kubeconfig
from ..apiserver.resources import BY_KIND, Kind
from ..feature_gates import feature_gates_option, gates_from
from ..hollow.controllers import run_controllers
from ..hollow.device_claims import device_claims
from ..hollow.devices.driver import run_driver
from ..hollow.devices.inventory import InventoryError, read_inventories, read_objects
from ..hollow.kubelet.housekeeping import Setup
from ..hollow.kubelet.kubelets import run_kubelets
from ..hollow.kubelet.metrics import KubeletMetrics
from ..hollow.kubelet.nodes import hollow_node
from ..hollow.kubelet.pressure.configuration import ConfigurationError, read_configurations
from ..hollow.kubelet.scenario import ScenarioError, read_scenario
from ..hollow.kubelet.stages.reading import Stages, read_stages
from ..hollow.kubelet.stages.stage import StageError
from ..hollow.kubelet.usage import NO_SCENARIO
from ..hollow.negotiation.driver import run_negotiating_driver
from ..manifests import ManifestError, kind_of
from ..manifests import read as read_manifests

# The errors of a command whose files or flags cannot be used.
UNUSABLE = (
    ManifestError,
    InventoryError,
    ScenarioError,
    ConfigurationError,
    StageError,
    ApiError,
    FeatureGateError,
)
SAMPLE = Path(__file__).parent / "sample.yaml"
DEVICES = Path(__file__).parent / "devices.yaml"
NEGOTIATION = Path(__file__).parent / "negotiation.yaml"
NODES, PODS, NAMESPACES = BY_KIND["v1", "Node"], BY_KIND["v1", "Pod"], BY_KIND["v1", "Namespace"]
CLAIMS = BY_KIND["resource.k8s.io/v1", "ResourceClaim"]
WORKLOADS = tuple(
    BY_KIND[kind]
    for kind in (
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "ReplicaSet"),
        ("v1", "ReplicationController"),
        ("batch/v1", "Job"),
        ("apps/v1", "DaemonSet"),
    )
)
# Other objects refer to these, so they are created first.
FIRST = (
    "Namespace",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "DeviceClass",
    "ResourceClass",
    "Node",
)
# The message of a pod that waits for the drivers of its devices.
NEGOTIATES = "waiting for resource driver"
SETTLED_SECONDS = 0.5
REFRESH_SECONDS = 0.1
MOST_ROWS = 30
Document = dict[str, Any]


class Row(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    node: str
    phase: str
    message: str

    @property
    def is_decided(self) -> bool:
        """True if the pod runs, or is known not to fit."""
        if self.phase != "Pending":
            return True
        return bool(self.message) and not self.node and NEGOTIATES not in self.message


class Summary(msgspec.Struct, frozen=True):
    pods: list[Row]
    placed: int
    pending: int


class Settings(msgspec.Struct, frozen=True):
    """The options of the command."""

    manifests: list[tuple[Kind, Document]]
    nodes: int
    devices: Path | None
    negotiation: bool
    stages: Stages
    kubelets: Setup
    gates: dict[str, bool]
    keep: bool
    port: int
    secure_port: int
    kubeconfig_out: Path | None
    allowed_hosts: tuple[str, ...]
    live: bool


@click.command()
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    type=click.Path(exists=True, allow_dash=True, path_type=Path),
    help="A manifest, a folder of them, or - for standard input; repeatable. "
    "By default, a built-in sample.",
)
@click.option(
    "--nodes",
    default=6,
    show_default=True,
    type=click.IntRange(0, 10_000),
    help="Number of hollow nodes.",
)
@click.option(
    "--devices",
    is_flag=False,
    flag_value=str(DEVICES),
    metavar="[FILE]",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Give nodes the devices that this file describes; without FILE, built-in ones.",
)
@click.option(
    "--negotiation",
    is_flag=True,
    help="Negotiate the claims of the older API: enable the plugin, and run its driver.",
)
@click.option(
    "--stages",
    "stage_paths",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, path_type=Path),
    help="Play these stages of pods and nodes, in the form of KWOK's Stage: a file, or a folder of "
    "them; repeatable. A stage replaces the built-in one of its name.",
)
@click.option(
    "--usage",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What pods use, by their labels; pods may also say it in the annotation berth.dev/usage.",
)
@click.option(
    "--kubelet-config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A KubeletConfiguration with eviction thresholds, or several for chosen nodes.",
)
@feature_gates_option
@click.option("--keep", is_flag=True, help="Stay up until interrupted, for kubectl.")
@click.option(
    "--port",
    default=0,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of the API server; 0 picks a free one.",
)
@click.option(
    "--secure-port",
    default=0,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of 127.0.0.1 for the scheduler's own pages, open to everybody; 0 serves none.",
)
@click.option(
    "--kubeconfig-out",
    type=click.Path(path_type=Path),
    help="Write the kubeconfig for kubectl to this file; by default, to a temporary one.",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="Also answer requests for this host, such as those a proxy forwards; repeatable.",
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
def demo(
    paths: tuple[Path, ...],
    nodes: int,
    devices: Path | None,
    negotiation: bool,
    stage_paths: tuple[Path, ...],
    usage: Path | None,
    kubelet_config: Path | None,
    feature_gates: tuple[str, ...],
    keep: bool,
    port: int,
    secure_port: int,
    kubeconfig_out: Path | None,
    allowed_hosts: tuple[str, ...],
    output: str,
) -> None:
    """Run a toy cluster in this process, and place a workload on it.

    The cluster has an API server, hollow nodes, controllers and the scheduler. The command ends
    once every pod is placed or known not to fit, with a table of the pods and exit code 0.

    \b
    berth demo
    berth demo -f manifests/ --nodes 20
    berth demo --keep --kubeconfig-out demo.kubeconfig
    berth demo --keep --devices
    berth demo --keep --stages chaos.yaml
    berth demo --keep --usage usage.yaml --kubelet-config kubelet.yaml
    """
    configure_logs(quiet=True)
    try:
        live = output == "table" and sys.stderr.isatty()
        manifests = read_manifests(paths or (SAMPLE,))
        if manifests.report:
            click.echo(manifests.report, err=True)
        settings = Settings(
            manifests=[*manifests.objects, *_of_devices(devices)],
            nodes=nodes,
            devices=devices,
            negotiation=negotiation,
            stages=read_stages(stage_paths),
            kubelets=Setup(
                read_configurations(kubelet_config) if kubelet_config else (),
                read_scenario(usage) if usage else NO_SCENARIO,
            ),
            gates=gates_from(feature_gates),
            keep=keep,
            port=port,
            secure_port=secure_port,
            kubeconfig_out=kubeconfig_out,
            allowed_hosts=allowed_hosts,
            live=live,
        )
        summary = anyio.run(_run, settings, backend_options={"use_uvloop": True})
    except KeyboardInterrupt:
        return
    except UNUSABLE as problem:
        raise click.ClickException(str(problem)) from None
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        raise click.ClickException(f"cannot start: {where}{problem.strerror or problem}") from None
    if output == "json":
        click.echo(msgspec.json.encode(summary).decode())
    else:
        Console().print(
            pods_table(summary.pods), f"{summary.placed} placed, {summary.pending} pending"
        )


def _of_devices(path: Path | None) -> list[tuple[Kind, Document]]:
    """Reads the objects in a file of devices. Raises InventoryError or ManifestError."""
    if path is None:
        return []
    read_inventories(path)
    return [(kind_of(document, where), document) for document, where in read_objects(path)]


async def _run(settings: Settings) -> Summary:
    """Starts the cluster, applies the manifests, and waits for all decisions or for a signal."""
    clock, rng = SystemClock(), Random()
    scenario = settings.kubelets.scenario
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(
            serve(
                settings.port,
                allowed_hosts=settings.allowed_hosts,
                kubelets=KubeletMetrics(clock, scenario),
            )
        )
        client = await stack.enter_async_context(Client(Connection(url)))
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="berth-")))
        file = settings.kubeconfig_out or folder / "kubeconfig"
        file.write_text(kubeconfig(url), encoding="utf-8")
        after = (
            f"; try: kubectl --kubeconfig {file} get pods -o wide"
            if settings.keep
            else " until every pod is decided; --keep keeps it"
        )
        click.echo(f"API server at {url}{after}", err=True)
        for what, names in (
            ("replaced", settings.stages.replaced),
            ("added", settings.stages.added),
        ):
            if names:
                click.echo(f"stages {what}: {', '.join(names)}", err=True)
        manifests = sorted(
            settings.manifests,
            key=lambda manifest: (manifest[0].kind not in FIRST, manifest[0].kind == "Pod"),
        )
        for number in range(1, settings.nodes + 1):
            await _apply(client, NODES, hollow_node(number))
        for kind, document in manifests:
            await _apply(client, kind, document)
        group = await stack.enter_async_context(anyio.create_task_group())
        await group.start(run_kubelets, client, clock, rng, settings.stages, settings.kubelets)
        await group.start(partial(run_controllers, client, clock, rng, scenario=scenario))
        if settings.devices is not None:
            await group.start(run_driver, client, clock, rng, settings.devices)
        if settings.negotiation:
            await group.start(run_negotiating_driver, client, clock, rng)
        configuration = load_file(NEGOTIATION) if settings.negotiation else from_mapping(None)
        unlimited = msgspec.structs.replace(configuration.client_connection, qps=0)
        configuration = msgspec.structs.replace(configuration, client_connection=unlimited)
        options = Options(
            feature_gates=settings.gates,
            serving=SecureServing("127.0.0.1", settings.secure_port),
            authentication=Authentication(skip_lookup=True),
            authorization=Authorization(always_allow_paths=("/*",)),
        )
        await group.start(
            partial(run_scheduler, configuration, Connection(url), clock, rng, options)
        )
        watching = _Watching(client, settings.live)
        if settings.keep:
            group.start_soon(_stop_on_signal, group)
            await watching.run(ends=False)
        summary = await watching.run(ends=True)
        group.cancel_scope.cancel()
    return summary if not settings.keep else watching.summary


async def _stop_on_signal(group: TaskGroup) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async for _ in received:
            group.cancel_scope.cancel()
            return


async def _apply(client: Client, kind: Kind, document: Document) -> None:
    """Creates an object and, if necessary, its namespace."""
    namespace = document["metadata"].get("namespace", "default")
    try:
        if kind.namespaced and namespace != "default":
            await _ensure_namespace(client, namespace)
        await client.call("POST", kind.path(namespace), dict, document)
    except ApiError as refused:
        raise ManifestError(
            f"{kind.kind} {document['metadata'].get('name', '')}: {refused}"
        ) from None


async def _ensure_namespace(client: Client, name: str) -> None:
    try:
        await client.call("POST", NAMESPACES.path(), dict, {"metadata": {"name": name}})
    except ApiError as refused:
        if refused.code != 409:
            raise


class _Watching:
    """The view of the cluster on a terminal, which polls it."""

    def __init__(self, client: Client, live: bool) -> None:
        self._client = client
        self._live = live
        self.summary = Summary([], 0, 0)

    async def run(self, *, ends: bool) -> Summary:
        """Waits until every pod is decided and nothing has changed for a moment.

        Never returns if `ends` is False.
        """
        last, since = None, anyio.current_time()
        console = Console(stderr=True)
        with (
            Live(console=console, transient=ends, auto_refresh=False)
            if self._live
            else nullcontext() as live
        ):
            while True:
                nodes, pods = await self._items(NODES), await self._items(PODS)
                has_claims = any(pod["spec"].get("resourceClaims") for pod in pods)
                claims = await self._items(CLAIMS) if has_claims else []
                self.summary = summarise(pods, {_key(claim["metadata"]) for claim in claims})
                if live is not None:
                    live.update(
                        Group(nodes_table(nodes, pods), pods_table(self.summary.pods)), refresh=True
                    )
                decided = all(row.is_decided for row in self.summary.pods)
                if self.summary != last or not decided or not await self._expanded():
                    last, since = self.summary, anyio.current_time()
                elif ends and anyio.current_time() - since > SETTLED_SECONDS:
                    return self.summary
                await anyio.sleep(REFRESH_SECONDS)

    async def _items(self, kind: Kind) -> list[Document]:
        items: list[Document] = (await self._client.call("GET", kind.path(), dict))["items"]
        return items

    async def _expanded(self) -> bool:
        """True once controllers have acted on every workload as it is now, and jobs are over."""
        for kind in WORKLOADS:
            for document in await self._items(kind):
                status = document.get("status") or {}
                if kind.kind == "Job":
                    done = any(c["status"] == "True" for c in status.get("conditions") or ())
                    if not done and status.get("active", 0) == 0:
                        return False
                elif status.get("observedGeneration", 0) < document["metadata"].get(
                    "generation", 1
                ):
                    return False
        return True


def summarise(pods: list[Document], claims: Set[str]) -> Summary:
    """Returns the pods as rows, with a message that says why a pod is pending.

    `claims` are the ResourceClaims that exist. The scheduler does not try a pod if one of its
    claims is missing, and writes nothing about it.
    """
    rows = []
    for pod in pods:
        conditions = pod["status"].get("conditions", ())
        why = next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")
        why = why or _lacking(Reader(Pod).convert(pod), claims)
        metadata, node = pod["metadata"], pod["spec"].get("nodeName", "")
        rows.append(
            Row(
                metadata["namespace"],
                metadata["name"],
                node,
                pod["status"]["phase"],
                "" if node else why,
            )
        )
    placed = sum(bool(row.node) for row in rows)
    return Summary(rows, placed, len(rows) - placed)


def _key(metadata: Document) -> str:
    return f"{metadata['namespace']}/{metadata['name']}"


def _lacking(pod: Pod, claims: Set[str]) -> str:
    """Returns the first claim that the pod lacks, as the scheduler's log words it; "" if none."""
    for entry in device_claims(pod):
        if entry.claim == "":
            return f'pod "{key(pod)}": ResourceClaim not created yet'
        named = f"{pod.metadata.namespace}/{entry.claim}"
        if entry.claim is not None and named not in claims:
            return f'could not find ResourceClaim "{named}"'
    return ""


def pods_table(rows: list[Row]) -> Table:
    """Returns a table of the pods. Pending pods come first, with the reason; without a reason there
    is no column for it.
    """
    table = Table(title="pods", title_justify="left")
    columns = ["namespace", "name", "node", "phase"]
    if any(row.message for row in rows):
        columns.append("why it is pending")
    for column in columns:
        table.add_column(column, overflow="fold")
    shown = sorted(rows, key=lambda row: bool(row.node))
    for row in shown[:MOST_ROWS]:
        cells = msgspec.structs.astuple(row)[: len(columns)]
        table.add_row(*cells, style=None if row.node else "yellow")
    if len(shown) > MOST_ROWS:
        table.add_row("", f"and {len(shown) - MOST_ROWS} more", style="dim")
    return table


def nodes_table(nodes: list[Document], pods: list[Document]) -> Table:
    """Returns a table of the nodes with their zone, state and number of pods."""
    table = Table(title="nodes", title_justify="left")
    for column in ("name", "zone", "ready", "pods"):
        table.add_column(column)
    on = Counter(pod["spec"].get("nodeName") for pod in pods)
    for node in nodes[:MOST_ROWS]:
        metadata, status = node["metadata"], node.get("status") or {}
        ready = any(
            c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ())
        )
        cordoned = ", cordoned" if (node.get("spec") or {}).get("unschedulable") else ""
        zone = (metadata.get("labels") or {}).get("topology.kubernetes.io/zone", "")
        table.add_row(
            metadata["name"],
            zone,
            f"{'yes' if ready else 'no'}{cordoned}",
            str(on[metadata["name"]]),
        )
    return table
