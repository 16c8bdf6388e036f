"""Clusters that begin as a dump of another one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from berth.testing import BlockingCluster, Cluster, ServedCluster, deployment, nodes, pod
from berth.tools.cluster.apiserver.kept_errors import SnapshotError
from berth.tools.cluster.apiserver.snapshot import save_snapshot

Document = dict[str, Any]


def dumped(path: Path, *kinds: str) -> Path:
    """Writes a dump as `kubectl get -A -o json` of some kinds makes it."""
    with BlockingCluster(nodes=2) as running:
        running.add(deployment("web", replicas=2, cpu=1), pod("big", cpu=100))
        running.settled()
        items = [item for kind in kinds for item in running.cluster.all(kind)]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def test_what_runs_goes_on(tmp_path: Path) -> None:
    path = dumped(tmp_path / "all.yaml", "Node", "Deployment", "ReplicaSet", "Pod")
    with BlockingCluster(dump=path) as running:
        before = {each["metadata"]["uid"] for each in running.pod("web")}
        assert running.pod("web").placed_on()
        running.settled()
        assert {each["metadata"]["uid"] for each in running.pod("web")} == before
        assert running.pod("web").running()
        assert running.pod("big").pending_because("Insufficient cpu")
        running.scale("Deployment", "web", 3)
        running.settled()
        assert len(running.pod("web")) == 3
        assert running.pods().bound_once()


def test_a_pod_whose_owner_is_not_in_the_dump_stays(tmp_path: Path) -> None:
    dumped(tmp_path / "nodes.json", "Node")
    (tmp_path / "default").mkdir()
    dumped(tmp_path / "default/pods.json", "Pod")
    (tmp_path / "default/logs.txt").write_text("not an object")
    with BlockingCluster(pod("new"), dump=tmp_path) as running:
        running.settled()
        assert len(running.pods()) == 4
        assert running.pod("new").running()


def test_a_snapshot_of_a_server_is_a_dump(tmp_path: Path) -> None:
    with BlockingCluster(nodes=1) as running:
        running.add(pod("a"))
        running.settled()
        save_snapshot(running.cluster.store, tmp_path / "saved.json")
    with ServedCluster(dump=tmp_path / "saved.json") as served:
        assert served.cluster.pod("a").placed_on("node-1")


async def test_what_is_no_dump_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Wheel\napiVersion: cars/v1\nmetadata: {name: w}\n")
    with pytest.raises(SnapshotError, match="no kind Wheel in cars/v1"):
        await Cluster(dump=tmp_path).__aenter__()
    (tmp_path / "empty").mkdir()
    with pytest.raises(SnapshotError, match="empty: expected objects, got none"):
        await Cluster(dump=tmp_path / "empty").__aenter__()


def test_nodes_may_be_added_to_a_dump(tmp_path: Path) -> None:
    path = dumped(tmp_path / "all.yaml", "Node", "Pod")
    with BlockingCluster(nodes(1, prefix="extra", cpu=200), dump=path) as running:
        running.settled()
        assert running.pod("big").placed_on("extra-1")
