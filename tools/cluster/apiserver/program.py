"""`berth apiserver`: the embedded API server on its own."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from pathlib import Path

import click

from ...kubernetes.api.requests.flow_limits import FlowLimits
from ...kubernetes.api.store import Store
from ...kubernetes.api.types.admission_plugins import STORAGE_PROTECTION
from ...kubernetes.api.types.api_documents import RefusedError
from ...kubernetes.api.types.releases import CURRENT_RELEASE, RELEASES, Release
from .app import serve
from .compaction import compacted
from .http import Wire
from .kept_errors import JournalError, SnapshotError
from .kept_objects import Kept
from .kubeconfig import kubeconfig
from .server_options import ServerOptions, server_options

# Documents are trees, so reference counts free them. Searching all of them for cycles would only
# make clients wait.
COLLECT = (100_000, 50, 100)
Faulty = Callable[[Store], AbstractAsyncContextManager[Wire]]
STOPPING = (signal.SIGTERM, signal.SIGINT)


@click.command()
@click.option(
    "--port",
    default=0,
    type=click.IntRange(0, 65535),
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--data",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep the objects in FILE, so that they survive a restart.",
)
@click.option(
    "--snapshot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Begin with the objects in FILE, such as `kubectl get -o yaml` writes, and save all "
    "objects there at the end.",
)
@click.option(
    "--kubeconfig-out",
    type=click.Path(path_type=Path),
    help="Write a kubeconfig for kubectl to this file.",
)
@click.option(
    "--version",
    default=CURRENT_RELEASE.version.text,
    type=click.Choice([*RELEASES]),
    show_default=True,
    help="The version of Kubernetes whose kinds and fields to serve.",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="Also answer requests for this host, such as those a proxy forwards; repeatable.",
)
@click.option(
    "--requests-per-second",
    "per_second",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Answer more requests of one user and program with 429; for a moment, of twice as many.",
)
@click.option(
    "--compaction-interval",
    "compaction_seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Drop the events that are older than this, so that watches from before them end with 410, "
    "as in Kubernetes after 300; without it, the latest 100,000 of each kind are kept.",
)
@click.option(
    "--faults",
    "fault_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Faults between the server and its clients, as data; see docs/faults.md.",
)
@click.option(
    "--faults-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Port of 127.0.0.1 on which faults are shown and changed (/faults); 0 picks a free one.",
)
@server_options
def apiserver(
    port: int,
    data: Path | None,
    snapshot: Path | None,
    kubeconfig_out: Path | None,
    version: str,
    allowed_hosts: tuple[str, ...],
    per_second: float | None,
    compaction_seconds: float | None,
    fault_file: Path | None,
    faults_port: int | None,
    server: ServerOptions,
) -> None:
    """Serve a Kubernetes API for experiments.

    It listens on 127.0.0.1 until interrupted.

    \b
    berth apiserver --port 8001
    kubectl --server http://127.0.0.1:8001 get nodes
    """
    if data is not None and snapshot is not None:
        raise click.UsageError("--data and --snapshot exclude each other")
    gc.set_threshold(*COLLECT)
    kept = Kept(data, snapshot)
    limits = None if per_second is None else FlowLimits(per_second)
    from uvloop import new_event_loop

    serving = _run(
        port,
        kept,
        kubeconfig_out,
        RELEASES[version],
        allowed_hosts,
        limits,
        compaction_seconds,
        _faults(fault_file, faults_port),
        server,
    )
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(serving)
    except KeyboardInterrupt:
        return
    except (JournalError, SnapshotError, RefusedError) as problem:
        raise click.ClickException(str(problem)) from None
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        raise click.ClickException(f"cannot start: {where}{problem.strerror or problem}") from None


def _faults(file: Path | None, port: int | None) -> Faulty | None:
    """Returns what puts faults in force, if there are to be any. Raises click.UsageError."""
    if file is None and port is None:
        return None
    from .fault_control import FaultError, FaultFile, faulty, read_faults  # few servers fail

    try:
        first = FaultFile() if file is None else read_faults(file)
    except FaultError as problem:
        raise click.UsageError(str(problem)) from None
    return partial(faulty, first=first, port=port or 0)


async def _run(
    port: int,
    kept: Kept,
    kubeconfig_out: Path | None,
    release: Release,
    allowed_hosts: tuple[str, ...],
    limits: FlowLimits | None,
    compaction_seconds: float | None,
    faults: Faulty | None,
    server: ServerOptions,
) -> None:
    async with kept.opened(release) as (store, gate), compacted(store, compaction_seconds):
        # No controller runs here that would ever end the protection of claims and volumes.
        store.plugins = server.plugins(without=STORAGE_PROTECTION)
        tls = server.prepare(store, allowed_hosts)
        context = tls.context if tls else None
        async with AsyncExitStack() as stack:
            wire = None
            if faults is not None:
                wire = await stack.enter_async_context(faults(store))
                click.echo(f"faults at {wire.control}")
            url = await stack.enter_async_context(
                serve(
                    port,
                    store=store,
                    allowed_hosts=allowed_hosts,
                    tls=context,
                    gate=gate,
                    limits=limits,
                    scripts=server.scripts,
                    webhooks=server.webhooks,
                    faults=wire,
                )
            )
            if kubeconfig_out is not None:
                written = kubeconfig(url, tls.administrator() if tls else None)
                await asyncio.to_thread(kubeconfig_out.write_text, written)
            server.write_account(store, url)
            click.echo(f"API server at {url}")
            await _stop_signal()


async def _stop_signal() -> None:
    """Waits for one of the signals that stop the server."""
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in STOPPING:
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()
    for number in STOPPING:
        loop.remove_signal_handler(number)
