"""`berth demo`: a toy cluster, on which a scheduler in a process beside places a workload."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import click
import msgspec
from anyio.abc import TaskGroup
from rich.console import Console

from berth.actors.cli.plugin_options import plugin_option, reload_option
from berth.actors.client.rest import (
    ApiError,
)
from berth.actors.configuration.file import file_or_default
from berth.actors.process.collector import tune_collector
from berth.actors.runtime.clock import SystemClock
from berth.actors.runtime.exceptions import first_of
from berth.actors.scheduling.decision.registry import RegistryError
from berth.actors.scheduling.kube.times import rfc3339
from berth.actors.telemetry.logs import configure_logs
from berth.config.feature_gates import FeatureGateError
from berth.config.load import ConfigError
from berth.config.types import KubeSchedulerConfiguration
from berth.config.versions import Version

from ...answers.explain.cluster_source import print_lines
from ...answers.manifests.manifests import (
    Findings,
    Manifest,
    ManifestError,
    Manifests,
    Reading,
    kind_of,
)
from ...answers.manifests.manifests import read as read_manifests
from ...answers.terminal.feature_gates import feature_gates_option, gates_from, version_asked
from ...answers.terminal.options import (
    allowed_hosts_option,
    config_option,
    exit_with,
    manifest_options,
    output_option,
    port_option,
)
from ...answers.terminal.signal_end import cancel_at_first_signal, cancel_at_signal
from ...answers.whatif.verbs import OFFERED, act
from ...answers.whatif.weights import weights_of
from ...answers.whatif.whatif_endpoint import WhatIfs
from ...cluster.apiserver.app import serve
from ...cluster.apiserver.certificate_controller import decide_requests
from ...cluster.apiserver.kubeconfig import kubeconfig
from ...cluster.apiserver.server_options import ServerOptions, server_options
from ...cluster.controllers.controller_manager import run_controllers
from ...cluster.controllers.embedded_access import EmbeddedAccess
from ...cluster.drivers.device_driver import run_driver
from ...cluster.drivers.inventory_file import read_inventories, read_objects
from ...cluster.drivers.negotiation_driver import run_negotiating_driver
from ...cluster.kubelets.configuration_files import ConfigurationError, read_configurations
from ...cluster.kubelets.housekeeping import Setup
from ...cluster.kubelets.kubelets import run_kubelets
from ...cluster.kubelets.metrics_server import KubeletMetrics
from ...cluster.kubelets.scenario_files import ScenarioError, read_scenario
from ...cluster.kubelets.stage_files import Stages, read_stages
from ...kubernetes.api.requests.field_managers import CONTROLLERS, KUBELET
from ...kubernetes.api.store import Store
from ...kubernetes.api.time_and_chance import TimeAndChance
from ...kubernetes.api.types.releases import release_of
from ...kubernetes.devices.inventory import InventoryError
from ...kubernetes.kubelet.stages.stage import StageError
from ...kubernetes.kubelet.usage_models import NO_SCENARIO
from ...views.page.page_server import serve_page
from .control_plane import create_control_plane
from .creation import create, needs_class, standard_class
from .own_scheduler import OwnScheduler, run_options
from .page_source import EmbeddedSource
from .placements import Summary
from .progress import Watching
from .reasons import with_reasons
from .scheduler import NoScheduler, Scheduler, SchedulerEndedError, Start
from .tables import closing_lines, pods_table
from .whatif_answers import ListedCluster, RealSteps

# The errors of a command whose files or flags cannot be used.
UNUSABLE = (
    ManifestError,
    InventoryError,
    ScenarioError,
    ConfigurationError,
    StageError,
    ApiError,
    ConfigError,
    RegistryError,
    FeatureGateError,
    SchedulerEndedError,
)
SAMPLE = Path(__file__).parent / "sample.yaml"
DEVICES = Path(__file__).parent / "devices.yaml"
NEGOTIATION = Path(__file__).parent / "negotiation.yaml"
Document = dict[str, Any]


class DemoSettings(msgspec.Struct, frozen=True):
    """The options of the command."""

    manifests: list[Manifest]
    others: list[Document]
    findings: Findings
    nodes: int
    devices: Path | None
    negotiation: bool
    configuration: KubeSchedulerConfiguration
    schedules: bool
    own: OwnScheduler
    reloads: bool
    stages: Stages
    kubelets: Setup
    version: Version
    gates: dict[str, bool]
    keep: bool
    metrics: bool
    port: int
    secure_port: int
    page_port: int
    kubeconfig_out: Path | None
    allowed_hosts: tuple[str, ...]
    server: ServerOptions
    live: bool
    look: bool


@click.command()
@manifest_options(
    "A manifest, a folder of them, or - for standard input; repeatable. "
    "By default, a built-in sample."
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
    help="A KubeletConfiguration (eviction, static pods), or several for chosen nodes.",
)
@click.option(
    "--scheduler",
    type=click.Choice(["berth", "none"]),
    default="berth",
    show_default=True,
    help="With none, run your own: the command is printed. The page answers as --config and "
    "--plugin say.",
)
@config_option
@plugin_option
@reload_option
@feature_gates_option
@click.option("--keep", is_flag=True, help="Stay up until interrupted, for kubectl.")
@click.option(
    "--no-metrics",
    is_flag=True,
    help="Serve no metrics.k8s.io, as a cluster without metrics-server.",
)
@port_option("--port", "Port of the API server; 0 picks a free one.")
@port_option(
    "--secure-port",
    "Port of 127.0.0.1 for the scheduler's own pages, open to everybody; 0 serves none.",
)
@port_option(
    "--page-port",
    "Port of the page that shows the cluster and the scheduler; 0 picks a free one.",
)
@click.option(
    "--kubeconfig-out",
    type=click.Path(path_type=Path),
    help="Write the kubeconfig for kubectl to this file; by default, to a temporary one.",
)
@allowed_hosts_option
@server_options
@output_option()
def demo(
    paths: tuple[Path, ...],
    reading: Reading,
    nodes: int,
    devices: Path | None,
    negotiation: bool,
    stage_paths: tuple[Path, ...],
    usage: Path | None,
    kubelet_config: Path | None,
    scheduler: str,
    file: str | None,
    reloads: bool,
    feature_gates: tuple[str, ...],
    keep: bool,
    no_metrics: bool,
    port: int,
    secure_port: int,
    page_port: int,
    kubeconfig_out: Path | None,
    allowed_hosts: tuple[str, ...],
    server: ServerOptions,
    output: str,
) -> None:
    """Run a toy cluster, and place a workload on it.

    The cluster has an API server, hollow nodes and controllers in this process, and the scheduler
    in another. The command ends once nothing more will happen, with a table of the pods and of what
    has not happened. The exit code is 0 then, also if pods are pending, and 1 if some objects
    cannot be used or the demo cannot start.

    \b
    berth demo
    berth demo -f manifests/ --nodes 20
    berth demo --keep --kubeconfig-out demo.kubeconfig
    berth demo --plugin price.py:Price
    berth demo --keep --plugin price.py:Price --reload
    berth demo --keep --scheduler none
    berth demo --keep --config scheduler.yaml --secure-port 10259
    berth demo --keep --devices
    berth demo --keep --stages chaos.yaml
    berth demo --keep --usage usage.yaml --kubelet-config kubelet.yaml
    """
    configure_logs(quiet=True)
    tune_collector()
    try:
        live = output == "table" and sys.stderr.isatty()
        look = live and keep and sys.stdin.isatty() and not Console().is_dumb_terminal
        reading = msgspec.structs.replace(reading, everything=True)
        manifests = read_manifests(paths or (SAMPLE,), reading=reading)
        print_lines(*reading.findings.untold(), _undefined(manifests))
        written = [*manifests.objects, *_device_manifests(devices)]
        standard = standard_class(written)
        if standard and any(needs_class(of.document) for of in written):
            print_lines("claims without a class get the demo's default StorageClass, standard")
        gates = gates_from(feature_gates)
        settings = DemoSettings(
            manifests=[*standard, *written],
            others=manifests.others,
            findings=reading.findings,
            nodes=nodes,
            devices=devices,
            negotiation=negotiation,
            configuration=_configuration(file, negotiation=negotiation),
            schedules=scheduler != "none",
            own=OwnScheduler(
                NEGOTIATION if negotiation else Path(file) if file else None,
                run_options(feature_gates, secure_port, reloads=reloads),
            ),
            reloads=reloads,
            stages=read_stages(stage_paths),
            kubelets=Setup(
                read_configurations(kubelet_config) if kubelet_config else (),
                read_scenario(usage) if usage else NO_SCENARIO,
                version_asked(),
            ),
            version=version_asked(),
            gates=gates,
            keep=keep,
            metrics=not no_metrics,
            port=port,
            secure_port=secure_port,
            page_port=page_port,
            kubeconfig_out=kubeconfig_out,
            allowed_hosts=allowed_hosts,
            server=server,
            live=live and not look,
            look=look,
        )
        summary = anyio.run(_demo, settings, backend_options={"use_uvloop": True})
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
        table = pods_table(summary.pods, len(summary.pods))
        Console().print(table, *closing_lines(summary), sep="\n", highlight=False)
    exit_with(reading)


def _undefined(manifests: Manifests) -> str:
    """Returns a line about the objects of unknown kinds; "" if there are none."""
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(manifests.left_out.items()))
    return f"left out: {kinds}: no CustomResourceDefinition is given" if kinds else ""


def _configuration(file: str | None, *, negotiation: bool) -> KubeSchedulerConfiguration:
    """Returns the configuration of a file, or the demo's. Raises ConfigError."""
    if file and negotiation:
        raise click.UsageError(
            "--negotiation cannot be combined with --config, where PodSchedulingContext is enabled"
        )
    return file_or_default(NEGOTIATION if negotiation else file)


def _device_manifests(path: Path | None) -> list[Manifest]:
    """Reads the objects in a file of devices. Raises InventoryError or ManifestError."""
    if path is None:
        return []
    read_inventories(path)
    return [
        Manifest(kind_of(document, where), document, where)
        for document, where in read_objects(path)
    ]


async def _demo(settings: DemoSettings) -> Summary:
    """Runs the demo of these options. Raises SchedulerEndedError, ManifestError, and what `_run`
    raises.
    """
    try:
        return await _run(settings)
    except BaseExceptionGroup as group:
        if group.subgroup((SchedulerEndedError, ManifestError)) is None:
            raise
        raise first_of(group) from None


async def _run(settings: DemoSettings) -> Summary:
    """Starts the cluster, applies the manifests, and waits for all decisions or for a signal."""
    clock, rng = SystemClock(), Random()
    store = Store(TimeAndChance(clock.wall, rng))
    store.release, store.plugins = release_of(settings.version), settings.server.plugins()
    scenario = settings.kubelets.scenario
    tls = settings.server.prepare(store, settings.allowed_hosts)
    access = EmbeddedAccess(store)
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(
            serve(
                settings.port,
                store=store,
                allowed_hosts=settings.allowed_hosts,
                kubelets=KubeletMetrics(clock, scenario) if settings.metrics else None,
                tls=tls.context if tls else None,
                scripts=settings.server.scripts,
                webhooks=settings.server.webhooks,
            )
        )
        scheduler = (
            await stack.enter_async_context(Scheduler.started())
            if settings.schedules
            else NoScheduler()
        )
        page_listener = stack.enter_context(socket.create_server(("127.0.0.1", settings.page_port)))
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="berth-")))
        file = settings.kubeconfig_out or folder / "kubeconfig"
        file.write_text(kubeconfig(url, tls.administrator() if tls else None), encoding="utf-8")
        of_scheduler = folder / "kube-scheduler.conf"
        identity = tls.identity("system:kube-scheduler", ()) if tls else None
        of_scheduler.write_text(kubeconfig(url, identity), encoding="utf-8")
        settings.server.write_account(store, url)
        configuration = settings.configuration
        schedulers = {profile.scheduler_name for profile in configuration.profiles}
        watching = Watching(access, clock, schedulers)
        group = await stack.enter_async_context(anyio.create_task_group())
        ending = cancel_at_first_signal if settings.keep else cancel_at_signal
        await group.start(ending, group.cancel_scope)
        after = (
            f"; try: kubectl --kubeconfig {file} get pods -o wide"
            if settings.keep
            else " until nothing more will happen; --keep keeps it"
        )
        click.echo(f"API server at {url}{after}", err=True)
        if not settings.schedules:
            click.echo(f"no scheduler; run one: {settings.own.command(of_scheduler)}", err=True)
        if settings.secure_port:
            pages = f"https://127.0.0.1:{settings.secure_port}"
            click.echo(f"scheduler at {pages}: /metrics, /debug/plugins, /debug/queue", err=True)
        for what, names in (
            ("replaced", settings.stages.replaced),
            ("added", settings.stages.added),
        ):
            if names:
                click.echo(f"stages {what}: {', '.join(names)}", err=True)
        written = settings.manifests, settings.findings, settings.others
        await create(access, settings.nodes, *written)
        print_lines(*settings.findings.untold())
        if settings.keep:
            began = rfc3339(clock.wall())
            await create_control_plane(
                access,
                settings.version,
                began,
                metrics=settings.metrics,
                schedules=settings.schedules,
            )
        await watching.start(group)
        if settings.live:
            group.start_soon(watching.show)
        is_due = await group.start(
            run_kubelets, access.named(KUBELET), clock, rng, settings.stages, settings.kubelets
        )
        controllers = access.named(CONTROLLERS)
        await group.start(partial(run_controllers, controllers, clock, rng, scenario=scenario))
        group.start_soon(decide_requests, store, tls.issue if tls else None)
        if settings.devices is not None:
            await group.start(run_driver, access, clock, rng, settings.devices)
        if settings.negotiation:
            await group.start(run_negotiating_driver, access, clock, rng)
        document = msgspec.json.decode(msgspec.json.encode(configuration, enc_hook=str))
        minor = settings.version.minor
        start = Start(
            str(of_scheduler),
            document,
            minor,
            settings.gates,
            settings.secure_port,
            settings.reloads,
        )
        group.start_soon(scheduler.run, start)
        page = EmbeddedSource(
            access,
            scheduler.glance,
            scheduler.recorded,
            configuration,
            settings.gates,
            schedules=settings.schedules,
        )
        asks = WhatIfs(
            ListedCluster(access, configuration, settings.gates),
            weights_of(configuration, settings.gates),
            OFFERED,
        )
        hosts = settings.allowed_hosts
        acts, does = partial(act, access), RealSteps(access).respond
        page_url = await group.start(
            serve_page, page, clock, page_listener, hosts, acts, asks, does
        )
        click.echo(f"page at {page_url}", err=True)
        if settings.look:
            notes = f"kubectl --kubeconfig {file}", f"API server {url}  page {page_url}"
            group.start_soon(_live_view, group, page_url, notes)
        if not settings.keep:
            await watching.settled(
                scheduler.glance, is_due, _print_nothing if settings.live else print_lines
            )
            group.cancel_scope.cancel()
    return await with_reasons(watching.summary(), access, configuration, settings.gates)


def _print_nothing(_: str) -> None:
    """Prints nothing, because the live view shows it."""


async def _live_view(group: TaskGroup, page_url: str, notes: Sequence[str]) -> None:
    """Shows the cluster on the terminal, and ends the demo when the user quits."""
    from ...views.top.feed_client import Page
    from ...views.top.screen import look

    await look(Page(page_url), notes)
    group.cancel_scope.cancel()
