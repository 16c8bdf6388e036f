"""A cluster of three nodes for each suite."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

from .container_ports import Containers, containers

STAND_IN = Path(__file__).with_name("stand_in")
START_SECONDS = 60.0
BARE = "{apiVersion: v1, kind: ConfigMap, metadata: {name: bare}}"


@contextmanager
def cluster(home: Path, flags: Sequence[str], printed: IO[str]) -> Iterator[None]:
    """Runs a cluster during the block. Its kubeconfig is where clients look in a home."""
    config, bare = home / ".kube" / "config", home / "bare.yaml"
    config.parent.mkdir()
    bare.write_text(BARE)
    demo = [str(Path(sys.executable).with_name("berth")), "demo", "--keep", "--nodes", "3"]
    demo += ["--tls", *flags, "-f", str(bare), "--kubeconfig-out", str(config)]
    demo += ["--stages", str(STAND_IN / "stages.yaml")]
    with containers(home) as scripted, _started(demo, scripted, printed) as process:
        try:
            _wait(process, config)
            yield
        finally:
            process.terminate()


@contextmanager
def given_cluster(home: Path, kubeconfig: Path) -> Iterator[None]:
    """Uses a cluster that runs already."""
    config = home / ".kube" / "config"
    config.parent.mkdir()
    config.write_text(kubeconfig.read_text())
    yield


def _wait(process: subprocess.Popen[str], config: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not config.exists() or not config.stat().st_size:
        if process.poll() is not None or time.monotonic() > deadline:
            raise click.ClickException("the cluster did not start")
        time.sleep(0.1)


def _started(demo: Sequence[str], scripted: Containers, printed: IO[str]) -> subprocess.Popen[str]:
    """Starts a cluster that finds the functions of scripts, and the network of its containers."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(STAND_IN),
        "BERTH_CONTAINERS_PROXY": scripted.proxy,
    }
    command = [*demo, "--scripts", str(scripted.scripts)]
    return subprocess.Popen(command, stdout=printed, stderr=printed, env=environment, text=True)
