"""`berth apiserver`: the embedded API server on its own."""

from __future__ import annotations

from pathlib import Path

import anyio
import click

from tools.apiserver.app import serve
from tools.apiserver.kubeconfig import kubeconfig


@click.command()
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--kubeconfig-out", type=click.Path(path_type=Path), help="Write a kubeconfig for kubectl to this file.")
def apiserver(port: int, kubeconfig_out: Path | None) -> None:
    """Serve an empty cluster's API on 127.0.0.1 until interrupted; what is in it lives in memory."""
    try:
        anyio.run(_run, port, kubeconfig_out, backend_options={"use_uvloop": True})
    except KeyboardInterrupt:
        return
    except OSError as problem:
        raise click.ClickException(f"cannot start: {problem.strerror or problem}") from None


async def _run(port: int, kubeconfig_out: Path | None) -> None:
    async with serve(port) as url:
        if kubeconfig_out is not None:
            await anyio.Path(kubeconfig_out).write_text(kubeconfig(url))
        click.echo(f"API server at {url}")
        await anyio.sleep_forever()
