"""Measures a start in a big cluster: `python -m berth.tools.bench.start [-o json]`.

This process serves an API server with many bound pods (`--pods`, `--nodes`). A fresh scheduler in
another process lists and decodes them, builds its state, and binds a first pod. Seconds count from
the start of its process. The pods resemble those of a real cluster: they are made from some dozens
of templates and running, with what a kubelet and a service account add.
"""

from __future__ import annotations

import gc
import time
import uuid
from typing import Any

import anyio
import click
import msgspec

from ..cluster.apiserver.app import serve
from ..cluster.apiserver.next_write import next_write
from ..cluster.apiserver.this_machine import this_machine
from ..kubernetes.api.store import Store
from ..kubernetes.api.types.api_documents import Document
from ..kubernetes.api.writes.registry import Api
from .objects import HOSTNAME, NODES, PODS
from .processes import worker
from .programs import figures_option, nodes_option, pods_option, show, table
from .worker import RunScheduler

TEMPLATES = 50
ZONES = 3
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - the path of the token in every pod


class StartFigures(msgspec.Struct, frozen=True):
    """Seconds since the start of the process; `peak_rss_bytes` is the peak of the scheduler."""

    pods: int
    nodes: int
    listed_bytes: int
    synced_seconds: float
    first_bind_seconds: float
    cpu_seconds: float
    peak_rss_bytes: int


def filled(pods: int, nodes: int, history: int = 1000) -> Store:
    """Returns a cluster in which every pod runs; a watch may be `history` events behind."""
    store = Store(this_machine(), history)
    Api(store).seed()
    for i in range(nodes):
        store.create(NODES, _node(i, store.outside.now()))
    scratch = Api(store.fork())
    specs = [
        scratch.create(
            PODS, "default", {"metadata": {"name": f"made-{i}"}, "spec": _spec(i)}
        ).document["spec"]
        for i in range(TEMPLATES)
    ]
    for i in range(pods):
        which = i % TEMPLATES
        store.create(PODS, _pod(i, f"node-{i % nodes:05}", f"app-{which:02}", specs[which]))
    return store


def _node(number: int, now: str) -> Document:
    name = f"node-{number:05}"
    room: Document = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "200Gi", "pods": "110"}
    labels = {
        HOSTNAME: name,
        "topology.kubernetes.io/zone": f"zone-{number % ZONES}",
        "kubernetes.io/os": "linux",
    }
    images = [
        {"names": [f"registry.example/image-{i}:v1"], "sizeBytes": 100_000_000 + i}
        for i in range(10)
    ]
    conditions = [
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": str(uuid.uuid4()),
            "labels": labels,
            "creationTimestamp": now,
        },
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"example://{name}"},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": conditions,
            "images": images,
        },
    }


def _spec(which: int) -> Document:
    environment = [
        {"name": f"SETTING_{i}", "value": f"value {i} of application {which}"} for i in range(8)
    ]
    probe = {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 10}
    container: Document = {
        "name": "main",
        "image": f"registry.example/image-{which}:v1",
        "ports": [{"containerPort": 8080, "name": "http"}],
        "env": environment,
        "readinessProbe": probe,
        "resources": {
            "requests": {"cpu": "100m", "memory": f"{100 + which}Mi"},
            "limits": {"memory": "1Gi"},
        },
        "volumeMounts": [{"name": "token", "mountPath": TOKEN, "readOnly": True}],
    }
    sources = [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]
    spread = {
        "maxSkew": 5,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": f"app-{which:02}"}},
    }
    return {
        "containers": [container],
        "volumes": [{"name": "token", "projected": {"sources": sources}}],
        "topologySpreadConstraints": [spread] if which % 5 == 0 else [],
    }


def _pod(number: int, node: str, app: str, spec: Document) -> Document:
    name, started = (
        f"{app}-{number:06}",
        f"2026-01-{number % 28 + 1:02}T{number % 24:02}:{number % 60:02}:{number % 59:02}Z",
    )
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": app,
        "uid": f"{app}-uid",
        "controller": True,
    }
    metadata = {
        "name": name,
        "generateName": f"{app}-",
        "namespace": "default",
        "uid": str(uuid.uuid4()),
        "creationTimestamp": started,
        "labels": {"app": app, "pod-template-hash": "6d4cf56db6"},
        "ownerReferences": [owner],
    }
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": started}
        for kind in (
            "PodReadyToStartContainers",
            "Initialized",
            "Ready",
            "ContainersReady",
            "PodScheduled",
        )
    ]
    image = spec["containers"][0]["image"]
    running: Document = {
        "name": "main",
        "image": image,
        "imageID": f"{image}@sha256:{number:064x}",
        "containerID": f"containerd://{number:064x}",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": started}},
    }
    status = {
        "phase": "Running",
        "qosClass": "Burstable",
        "podIP": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
        "startTime": started,
        "conditions": conditions,
        "containerStatuses": [running],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, "nodeName": node},
        "status": status,
    }


async def measure(pods: int, nodes: int) -> StartFigures:
    store = filled(pods, nodes)
    listed = sum(len(stored.raw) for stored in store.list(PODS))
    gc.collect()
    gc.freeze()
    async with serve(store=store) as url:
        started = time.monotonic()
        async with worker(RunScheduler("", "", url, profile=False)) as scheduler:
            await scheduler.ready()
            synced = time.monotonic() - started
            first: Any = {"containers": [{"name": "main", "image": "registry.example/first:v1"}]}
            Api(store).create(PODS, "default", {"metadata": {"name": "first"}, "spec": first})
            while not store.get(PODS, "default", "first")["spec"].get("nodeName"):
                await next_write(store, PODS)
            bound = time.monotonic() - started
            effort = await scheduler.stop()
    assert effort.cpu_seconds is not None
    assert effort.peak_rss_bytes is not None
    return StartFigures(
        pods, nodes, listed, synced, bound, effort.cpu_seconds, effort.peak_rss_bytes
    )


@click.command()
@pods_option
@nodes_option
@figures_option
def main(pods: int, nodes: int, output: str) -> None:
    """Start a scheduler beside an API server with this many bound pods."""
    figures = anyio.run(measure, pods, nodes, backend_options={"use_uvloop": True})
    columns = ("pods", "nodes", "MB listed", "synced s", "first bind s", "cpu s", "peak MB")
    row = list(msgspec.structs.astuple(figures))
    row[2], row[-1] = (f"{size / 1e6:,.0f}" for size in (row[2], row[-1]))
    show(output, figures, table(columns, [row], "{:.1f}"))


if __name__ == "__main__":
    main()
