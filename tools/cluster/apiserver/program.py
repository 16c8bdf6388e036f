"""`berth apiserver`: the embedded API server on its own."""

from __future__ import annotations

import gc
import signal
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import anyio
import click

from ...kubernetes.api.store import Store
from ...kubernetes.api.types.admission_plugins import STORAGE_PROTECTION
from ...kubernetes.api.types.api_documents import RefusedError
from ...kubernetes.api.types.releases import CURRENT_RELEASE, RELEASES, Release
from .app import serve
from .journal import Journal
from .journal_replay import JournalError
from .kubeconfig import kubeconfig
from .server_options import ServerOptions, server_options
from .this_machine import this_machine

# Documents are trees, so reference counts free them. Searching all of them for cycles would only
# make clients wait.
COLLECT = (100_000, 50, 100)
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
@server_options
def apiserver(
    port: int,
    data: Path | None,
    kubeconfig_out: Path | None,
    version: str,
    allowed_hosts: tuple[str, ...],
    server: ServerOptions,
) -> None:
    """Serve a Kubernetes API for experiments.

    It listens on 127.0.0.1 until interrupted.

    \b
    berth apiserver --port 8001
    kubectl --server http://127.0.0.1:8001 get nodes
    """
    gc.set_threshold(*COLLECT)
    try:
        anyio.run(
            partial(_run, port, data, kubeconfig_out, RELEASES[version], allowed_hosts, server),
            backend_options={"use_uvloop": True},
        )
    except KeyboardInterrupt:
        return
    except (JournalError, RefusedError) as problem:
        raise click.ClickException(str(problem)) from None
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        raise click.ClickException(f"cannot start: {where}{problem.strerror or problem}") from None


async def _run(
    port: int,
    data: Path | None,
    kubeconfig_out: Path | None,
    release: Release,
    allowed_hosts: tuple[str, ...],
    server: ServerOptions,
) -> None:
    async with AsyncExitStack() as stack:
        journal = None if data is None else stack.enter_context(_opened(data))
        store = Store(this_machine()) if journal is None else journal.store
        gate = None if journal is None else journal.commit
        if journal is not None:
            await stack.enter_async_context(journal.tended())
        store.release = release
        # No controller runs here that would ever end the protection of claims and volumes.
        store.plugins = server.plugins(without=STORAGE_PROTECTION)
        tls = server.prepare(store, allowed_hosts)
        context = tls.context if tls else None
        async with serve(
            port, store=store, allowed_hosts=allowed_hosts, tls=context, gate=gate
        ) as url:
            if kubeconfig_out is not None:
                written = kubeconfig(url, tls.administrator() if tls else None)
                await anyio.Path(kubeconfig_out).write_text(written)
            server.write_account(store, url)
            click.echo(f"API server at {url}")
            with anyio.open_signal_receiver(*STOPPING) as signals:
                async for _ in signals:
                    return


def _opened(data: Path) -> Journal:
    journal = Journal(data)
    if journal.cut_off:
        click.echo(
            f"{data}: left out the last write, which was cut off after {journal.cut_off} bytes",
            err=True,
        )
    return journal
