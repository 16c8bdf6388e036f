"""Static pods: those of manifests in a folder of a node, which its kubelet runs without the API
server.

Mirrors pkg/kubelet/config/file.go and pkg/kubelet/pod/mirror_client.go. Each has a mirror pod in
the API server. A mirror pod that is deleted comes again, and its containers have run on meanwhile;
it goes for good with its manifest, or with another version of it.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

import anyio
import msgspec

from berth.actors.runtime.clock import Clock
from berth.actors.scheduling.framework.logger import get_logger
from berth.actors.scheduling.kube.times import rfc3339
from berth.actors.scheduling.kube.yaml_documents import YamlError, documents

from ...kubernetes.api.types.api_documents import key_of
from ...kubernetes.kubelet.pressure.eviction_ranking import MIRROR, SOURCE
from ...kubernetes.objects.structs import Document

log = get_logger(__name__)
HASH, SEEN = "kubernetes.io/config.hash", "kubernetes.io/config.seen"
# Sends a request until it is answered; returns the answer, or None if it was refused.
Send = Callable[[str, str, Document, str], Awaitable[Document | None]]
# How long kubelets take to notice what has changed. Who deletes a mirror pod and waits until it is
# gone, as kubectl does, would miss that moment otherwise.
NOTICE_SECONDS = 1.0
_PATCH = "application/strategic-merge-patch+json"


class StaticPodPlace(msgspec.Struct, frozen=True):
    """A node with static pods: the place of its manifests, and how often its kubelet reads them."""

    node: str
    uid: str
    path: Path
    seconds: float


def read_manifests(path: Path) -> dict[str, Document]:
    """Returns the pods of a file, or of the files of a folder except those whose names begin with a
    dot.
    """
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    manifests = {}
    for file in files:
        if file.name.startswith(".") or not file.is_file():
            continue
        try:
            manifests[str(file)] = _pod_of(file)
        except (OSError, YamlError, ValueError) as problem:
            log.warning("static pod not read", file=str(file), error=str(problem))
    return manifests


def _pod_of(file: Path) -> Document:
    """Returns the pod of a file. Raises ValueError or YamlError if it has none."""
    read = [document for document in documents(file.read_bytes()) if document is not None]
    if len(read) != 1 or not isinstance(read[0], dict) or read[0].get("kind") != "Pod":
        raise ValueError("expected one Pod")
    pod: Document = read[0]
    metadata, spec = pod.get("metadata"), pod.get("spec")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise ValueError("metadata.name: expected a name")
    if not isinstance(spec, dict) or spec.get("resourceClaims"):
        raise ValueError("spec: expected a spec without resourceClaims")
    return pod


def mirror_of(manifest: Document, source: str, place: StaticPodPlace, seen: str) -> Document:
    """Returns the mirror pod of a manifest from a file."""
    written = msgspec.json.encode(manifest, order="sorted")
    where = f"host:{place.node}file:{source}".encode()
    hashed = hashlib.md5(written + where, usedforsecurity=False).hexdigest()
    metadata, spec = manifest["metadata"], manifest["spec"]
    annotations = {HASH: hashed, SOURCE: "file", SEEN: seen, MIRROR: hashed}
    owner = {"apiVersion": "v1", "kind": "Node", "name": place.node, "uid": place.uid}
    return {
        **manifest,
        "metadata": {
            **metadata,
            "name": f"{metadata['name']}-{place.node.lower()}",
            "namespace": metadata.get("namespace") or "default",
            "annotations": {**(metadata.get("annotations") or {}), **annotations},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            **spec,
            "nodeName": place.node,
            "tolerations": [
                *(spec.get("tolerations") or ()),
                {"operator": "Exists", "effect": "NoExecute"},
            ],
        },
    }


def reconcile(
    mirrors: Iterable[Document], present: Mapping[str, Document]
) -> tuple[list[Document], list[Document]]:
    """Returns the mirror pods to create, and the mirror pods to delete.

    `present` are the pods of the node by namespace and name. A mirror pod that replaces another of
    its name is created once the other is gone.
    """
    desired = {key_of(mirror): mirror for mirror in mirrors}
    wrong = [
        pod
        for place, pod in present.items()
        if place not in desired or _hash(pod) != _hash(desired[place])
    ]
    return [mirror for place, mirror in desired.items() if place not in present], wrong


def _hash(pod: Document) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(MIRROR, ""))


class StaticPods:
    """The static pods of all nodes."""

    def __init__(self, send: Send, clock: Clock) -> None:
        self._send = send
        self._clock = clock
        self._places: dict[str, StaticPodPlace] = {}
        self._read: dict[Path, dict[str, Document]] = {}
        self._present: dict[str, dict[str, Document]] = defaultdict(dict)  # mirror pods, by node
        self._ran: dict[str, Document] = {}  # the last status of a mirror pod that was deleted
        self._listed = False
        self._due: set[str] = set()  # nodes
        self._changed = anyio.Event()

    def put_node(self, place: StaticPodPlace) -> None:
        self._places[place.node] = place
        self._wake(place.node)

    def remove_node(self, name: str) -> None:
        self._places.pop(name, None)

    def replace(self, pods: Iterable[Document]) -> None:
        """Takes over all bound pods, after a list."""
        self._present.clear()
        for pod in pods:
            self.put(pod)
        self._listed = True
        self._due |= self._places.keys()
        self._changed.set()

    def put(self, pod: Document) -> None:
        """Stores a new version of a pod of a node."""
        if _hash(pod):
            self._present[pod["spec"]["nodeName"]][key_of(pod)] = pod

    def remove(self, pod: Document) -> None:
        """Forgets a deleted pod. Its mirror is created again unless its manifest is gone."""
        name = pod["spec"]["nodeName"]
        if _hash(pod) and self._present[name].pop(key_of(pod), None) is not None:
            self._ran[_hash(pod)] = pod.get("status") or {}
            self._wake(name)

    def _wake(self, name: str) -> None:
        if name in self._places:
            self._due.add(name)
            self._changed.set()

    async def run(self) -> None:
        """Reads the manifests again and again, and keeps their mirror pods in existence."""
        while True:
            self._changed = anyio.Event()
            self._read_changed_manifests()
            if self._listed and self._due:
                await self._clock.sleep(NOTICE_SECONDS)
            while self._listed and self._due:
                name = self._due.pop()
                if name in self._places:
                    await self._reconcile(self._places[name])
            seconds = min((place.seconds for place in self._places.values()), default=None)
            async with anyio.create_task_group() as waiting:
                if seconds is not None:
                    waiting.start_soon(self._ring_bell, seconds)
                await self._changed.wait()
                waiting.cancel_scope.cancel()

    async def _ring_bell(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._changed.set()

    def _read_changed_manifests(self) -> None:
        """Reads the manifests. Nodes whose manifests have changed become due."""
        nodes: dict[Path, list[str]] = defaultdict(list)
        for place in self._places.values():
            nodes[place.path].append(place.node)
        for path, names in nodes.items():
            manifests = read_manifests(path) if path.exists() else {}
            if manifests != self._read.get(path):
                self._read[path] = manifests
                self._due |= set(names)

    async def _reconcile(self, place: StaticPodPlace) -> None:
        seen = rfc3339(self._clock.wall())
        manifests = self._read.get(place.path, {})
        mirrors = [mirror_of(manifests[file], file, place, seen) for file in manifests]
        missing, wrong = reconcile(mirrors, self._present[place.node])
        for pod in wrong:
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
            await self._send("DELETE", _path(pod), options, "application/json")
        for mirror in missing:
            path = _path(mirror).rpartition("/")[0]
            created = await self._send("POST", path, mirror, "application/json")
            status = self._ran.pop(_hash(mirror), {})
            if created is not None and status.get("phase") == "Running":
                body = {"status": status}
                await self._send("PATCH", f"{_path(mirror)}/status", body, _PATCH)


def _path(pod: Document) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
