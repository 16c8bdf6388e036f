"""Runs the commands about a zone that goes dark, one after another, with kubectl.

The cluster's time runs faster than that of kubectl: the story takes several minutes of it.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from berth.tools.cluster.apiserver.app import serve
from berth.tools.cluster.apiserver.kubeconfig import kubeconfig
from berth.tools.cluster.controllers.embedded_access import EmbeddedAccess
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.virtual_time import LoopClock, run_virtually
from tests.docs.blocks import ROOT, write_files
from tests.docs.consoles import follow
from tests.kit.embedded import running
from tests.kit.kubectl import Kubectl
from tests.kit.paced_loop import PacedLoop
from tests.kit.programs import needs
from tests.kit.stores import fresh_store

EVICTION = ROOT / "docs/eviction.md"
SECONDS = 60.0  # of real time, for each command
PROGRAMS = Path(sys.executable).parent  # with berth
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"


async def _story(folder: Path) -> None:
    write_files(EVICTION, folder)
    store, clock = fresh_store(), LoopClock()
    access = EmbeddedAccess(store)
    async with serve(store=store) as url:
        (folder / "config").write_text(kubeconfig(url))
        kubectl = Kubectl(folder / "config", folder)
        kubectl.environment["PATH"] = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
        for number in range(1, 7):
            await access.call("POST", NODES, dict, hollow_node(number))
        async with running(access, clock, Random(1)):
            await anyio.to_thread.run_sync(kubectl, "create", "-f", "dark.yaml")
            looks = ("kubectl get",)
            section = "A zone goes dark"
            await anyio.to_thread.run_sync(follow, EVICTION, section, kubectl, looks, SECONDS)
            await clock.sleep(60)
            pods = (await access.call("GET", PODS, dict))["items"]
            assert not any("deletionTimestamp" in pod["metadata"] for pod in pods)
            assert _no_execute(await access.call("GET", NODES, dict)) == []


def _no_execute(nodes: dict[str, Any]) -> list[datetime]:
    """Returns the times of the NoExecute taints."""
    taints = [taint for node in nodes["items"] for taint in node["spec"].get("taints") or ()]
    return [
        datetime.fromisoformat(taint["timeAdded"])
        for taint in taints
        if taint["effect"] == "NoExecute"
    ]


@pytest.mark.full("waits")
@needs("kubectl")
def test_the_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    run_virtually(partial(_story, tmp_path), loop=PacedLoop)
