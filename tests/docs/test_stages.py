"""The page on stages: its stages are read, its tables are complete, and its examples happen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import yaml

from berth.tools.cluster.kubelets.kubelets import run_kubelets
from berth.tools.cluster.kubelets.stage_files import STEPS, read_stages
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from tests.docs.blocks import ROOT, blocks
from tests.kit.cluster import cluster
from tests.kit.virtual_loop import in_virtual_time

PAGE = ROOT / "docs/stages.md"


def rows(heading: str) -> list[list[str]]:
    """Returns the cells of the table in a section of the page."""
    section = PAGE.read_text().split(f" {heading}\n")[1].split("\n#")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_table_has_every_python_step() -> None:
    listed = [(kind, step) for kind, step, _ in rows("Python steps")]
    assert listed == [(kind, step) for kind, steps in STEPS.items() for step in steps]


def test_the_annotations_are_those_of_the_stages_and_steps() -> None:
    folder = ROOT / "tools/kubernetes/kubelet"
    texts = "".join(
        path.read_text() for path in folder.rglob("*.*") if path.suffix in (".py", ".yaml")
    )
    listed = [name for name, _ in rows("Steer a pod")]
    assert len(listed) == 8
    assert [name for name in listed if f'"{name}"' not in texts] == []


@in_virtual_time
async def test_one_pod_in_ten_fails(tmp_path: Path) -> None:
    crashing, stages = (block.text for block in blocks(PAGE, "yaml"))
    (tmp_path / "stages.yaml").write_text(stages)
    async with cluster() as running:
        await running.start(run_kubelets, read_stages([tmp_path]))
        await running.create("Node", hollow_node(1))
        document: dict[str, Any] = yaml.safe_load(crashing)
        document["spec"]["nodeName"] = "node-1"
        await running.create("Pod", document)
        fragile = [
            {
                "metadata": {"name": f"p{number}", "labels": {"app": "fragile"}},
                "spec": {**document["spec"], "restartPolicy": "Never"},
            }
            for number in range(100)
        ]
        await running.create_all("Pod", fragile)
        await anyio.sleep(19)
        pods = await running.by_name("Pod")
        (crashed,) = pods.pop("crashing")["status"]["containerStatuses"]
        assert crashed["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert Counter(pod["status"]["phase"] for pod in pods.values()) == {"Running": 100}
        await anyio.sleep(45)
        failed = [pod for pod in await running.all("Pod") if pod["status"]["phase"] == "Failed"]
        assert 4 <= len(failed) <= 17
        events = await running.all("Event")
        assert [event["reason"] for event in events].count("Broken") == len(failed)
