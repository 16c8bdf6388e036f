"""`berth whatif serve`: what-ifs over HTTP, about a cluster that is kept in memory."""

from __future__ import annotations

import gc
import socket
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import click
import msgspec

from berth.actors.cli.plugin_options import plugin_option
from berth.actors.client.rest import ApiError, Connection
from berth.actors.configuration.file import file_or_default
from berth.actors.runtime.clock import SystemClock
from berth.actors.runtime.exceptions import first_of
from berth.actors.server.request import Answer, Request
from berth.actors.telemetry.logs import configure_logs
from berth.config.types import KubeSchedulerConfiguration

from ...answers.explain.cluster_source import NO_ANSWER, Live, connection_to, from_manifests
from ...answers.feed.feed import Feed
from ...answers.manifests.manifests import Reading
from ...answers.terminal.feature_gates import feature_gates_option, gates_from
from ...answers.terminal.options import (
    allowed_hosts_option,
    config_option,
    manifest_options,
    port_option,
)
from ...answers.terminal.signal_end import signals_that_end
from ...answers.whatif.answer_process import AnswerProcess
from ...answers.whatif.question import RefusedError
from ...answers.whatif.verbs import OFFERED
from ...answers.whatif.warm_cluster import Document, WarmCluster, WarmSource
from ...answers.whatif.weights import weights_of
from ...answers.whatif.whatif_endpoint import WhatIfs
from ..page.page import ClusterPage
from ..page.page_server import local_site
from .cluster_options import live_options

COLLECT = (100_000, 50, 100)
NO_STEPS = b'{"steps": [], "nodes": "changed"}'


class Served(msgspec.Struct, frozen=True):
    """The cluster to serve: a live one, which is followed, or the documents of files."""

    documents: Iterable[Document]
    connection: Connection | None
    configuration: KubeSchedulerConfiguration
    gates: Mapping[str, bool]


@click.command()
@manifest_options("The cluster: manifests, folders of them, or - for standard input; repeatable.")
@live_options(
    "The cluster: a live one, which is watched. Without -f, $KUBECONFIG or ~/.kube/config."
)
@config_option
@plugin_option
@feature_gates_option
@port_option("--port", "Port to listen on; 0 picks a free one.", default=8085)
@allowed_hosts_option
def serve(
    paths: tuple[Path, ...],
    reading: Reading,
    live: Live,
    file: str | None,
    feature_gates: tuple[str, ...],
    port: int,
    allowed_hosts: tuple[str, ...],
) -> None:
    """Answer what-ifs over HTTP, and on a page.

    Listens on 127.0.0.1 until interrupted; the page is at /ui. POST /whatif takes
    {"steps": [...], "seed": 0} and answers as `berth whatif -o json` does; GET /whatif/schema has
    the JSON Schema of both. A live cluster is followed by its watch, and is only read.

    \b
    berth whatif serve --kubeconfig ~/.kube/config
    berth whatif serve -f cluster.yaml --plugin price.py:Price
    curl -s localhost:8085/whatif -d '{"steps": ["add 1 like node-1"]}'
    """
    configure_logs(quiet=True)
    gc.set_threshold(*COLLECT)
    if paths and live.is_named:
        raise click.UsageError("expected files or a live cluster, got both")
    try:
        gates = gates_from(feature_gates)
        configuration = file_or_default(file, gates)
        connection = None if paths else connection_to(live)
        documents = from_manifests(paths, reading=reading) if paths else ()
        anyio.run(
            _run,
            Served(documents, connection, configuration, gates),
            port,
            allowed_hosts,
            backend_options={"use_uvloop": True},
        )
    except* (
        ApiError,
        *NO_ANSWER,
    ) as problems:
        failure = str(first_of(problems))
    except* OSError as problems:
        failure = f"cannot listen on port {port}: {first_of(problems)}"
    else:
        return
    raise click.ClickException(failure)


async def _run(served: Served, port: int, allowed_hosts: Collection[str]) -> None:
    async with serving(served, port, allowed_hosts) as url:
        # Who reads the address may send a signal at once.
        with anyio.open_signal_receiver(*signals_that_end()) as signals:
            click.echo(f"what-ifs at {url}")
            click.echo(f"page at {url.removesuffix('whatif')}ui/")
            async for _ in signals:
                return


@asynccontextmanager
async def serving(
    served: Served, port: int = 0, allowed_hosts: Collection[str] = ()
) -> AsyncIterator[str]:
    """Serves what-ifs about a cluster; yields the URL."""
    configuration, gates = served.configuration, served.gates
    async with anyio.create_task_group() as group:
        warm = WarmCluster(served.documents, configuration, gates, group)
        if served.connection is not None:
            await group.start(warm.follow, served.connection)
        gc.collect()
        gc.freeze()  # A collection would visit all objects of the cluster.
        beside, clock = AnswerProcess(warm), SystemClock()
        with suppress(RefusedError):  # Who asks is told of it.
            await beside.ask(NO_STEPS)  # Nobody waits until the cluster is read.
        whatifs = WhatIfs(beside, weights_of(configuration, gates), OFFERED)
        source = WarmSource(warm, beside, clock)
        feed = Feed(source, clock)
        page = ClusterPage(source, feed, asks=whatifs)
        group.start_soon(feed.run)

        async def show(request: Request) -> Answer:
            of = whatifs if request.path.startswith("/whatif") else page
            return await of.show(request)

        with socket.create_server(("127.0.0.1", port)) as listener:
            async with local_site(show, listener, allowed_hosts) as at:
                yield f"{at}/whatif"
        group.cancel_scope.cancel()
