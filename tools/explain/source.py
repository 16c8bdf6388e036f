"""The source of the cluster to explain: manifests, a live API server, or a recorded scenario."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import click
import msgspec

from berth.actors.client.rest import (
    ApiError,
    Client,
    Connection,
)
from berth.actors.scheduling.kube.kinds import BY_KIND as WATCHED
from berth.actors.scheduling.kube.kinds import (
    NODES,
    WatchedKind,
)
from berth.actors.scheduling.kube.kinds import PODS as WATCHED_PODS
from berth.actors.telemetry.klog import printable
from berth.config.load import (
    ConfigError,
    from_mapping,
)
from berth.config.types import KubeSchedulerConfiguration

from ..apiserver.admission import (
    CLAIMS,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    STORAGE_CLASSES,
    admitted_claim,
    admitted_pod,
)
from ..apiserver.api import Api
from ..apiserver.conversion import stored_form
from ..apiserver.defaults import defaulted
from ..apiserver.eviction import PODS
from ..apiserver.limits import LIMIT_RANGES, check_limits, with_default_limits
from ..apiserver.resources import BY_KIND, Kind
from ..apiserver.schema import TYPES, pruned
from ..apiserver.store import RefusedError, Store
from ..apiserver.validation import invalid_message, problems
from ..manifests import ManifestError, kind_of, objects_in
from .cluster import decoded

# Kinds that admission looks up.
CLASSES = (PRIORITY_CLASSES, RUNTIME_CLASSES, STORAGE_CLASSES, LIMIT_RANGES)
VOLUMES = BY_KIND["v1", "PersistentVolume"]
Document = dict[str, Any]


class Question(msgspec.Struct, frozen=True):
    """A pod, the cluster around it, and the configuration of the decision."""

    pod: Document
    objects: list[Document]
    configuration: KubeSchedulerConfiguration


class SourceError(ValueError):
    """The source has no question to answer; the message says why in one line."""


def from_manifests(
    paths: Iterable[Path],
    namespace: str,
    name: str,
    configuration: KubeSchedulerConfiguration,
    kinds: Collection[WatchedKind] = (),
) -> Question:
    """Reads objects as a user writes them, and completes them with the API's defaults. Objects of
    `kinds`, which plugins declare, are taken as they are. Raises SourceError.
    """
    declared = {(kind.api_version, kind.kind) for kind in kinds} - BY_KIND.keys()
    manifests: list[tuple[Kind, Document]] = []
    others: list[Document] = []
    try:
        for document, where in objects_in(paths):
            if (str(document["apiVersion"]), str(document["kind"])) in declared:
                others.append(document)
            else:
                manifests.append((kind_of(document, where), document))
    except ManifestError as problem:
        raise SourceError(str(problem)) from None
    store = Store()
    Api(store).seed()
    named: set[tuple[str, str, str]] = set()
    objects = []
    for kind, document in sorted(manifests, key=lambda pair: pair[0] not in CLASSES):
        completed = _completed(kind, document, store)
        metadata = completed["metadata"]
        key = (kind.type_name, metadata.get("namespace", ""), metadata["name"])
        if key in named:
            raise SourceError(
                f"{kind.kind} {'/'.join(filter(None, key[1:]))}: expected once, found twice"
            )
        named.add(key)
        objects.append(completed)
    return _question([*objects, *others], namespace, name, configuration)


async def from_cluster(
    connection: Connection,
    namespace: str,
    name: str,
    configuration: KubeSchedulerConfiguration,
    kinds: Collection[WatchedKind] = (),
) -> Question:
    """Reads the objects of a live cluster, with those of `kinds`, which plugins declare. A kind
    that the API server does not serve has no objects.

    Leaves out objects that cannot be read, and names them on standard error. Raises SourceError or
    ConnectionFailedError.
    """
    documents: list[Document] = []
    listed_kinds = {(kind.api_version, kind.kind): kind for kind in kinds} | WATCHED
    async with Client(connection) as client:
        for kind in listed_kinds.values():
            try:
                listed = await client.page(kind.path, dict)
            except ApiError as refused:
                if refused.code == 404 and kind not in (NODES, WATCHED_PODS):
                    continue
                raise SourceError(f"{kind.kind}: {refused}") from None
            items = [
                {**item, "apiVersion": kind.api_version, "kind": kind.kind}
                for item in listed.get("items") or ()
            ]
            documents += [item for item in items if _can_be_read(item, kinds)]
    return _question(documents, namespace, name, configuration)


def _can_be_read(document: Document, kinds: Collection[WatchedKind]) -> bool:
    problem = "metadata.name: expected a name"
    try:
        decodings = list(decoded(document, kinds))
    except msgspec.ValidationError as invalid:
        problem = str(invalid)
    else:
        if decodings and all(item.metadata.name for item in decodings):
            return True
    said = f"a {document['kind']} cannot be read and is left out: {problem}"
    click.echo(printable(said), err=True)
    return False


def from_scenario(line: bytes | str) -> tuple[str, Question]:
    """Returns the name and the question of a line of the recordings. Raises SourceError."""
    try:
        scenario = msgspec.json.decode(line)
        configuration = from_mapping(scenario["config"])
        return scenario["name"], Question(scenario["pod"], scenario["objects"], configuration)
    except ConfigError as invalid:
        raise SourceError(f"config: {invalid}") from None
    except (msgspec.DecodeError, KeyError, TypeError) as problem:
        raise SourceError(
            f"expected a scenario with name, config, objects and pod: {problem!r}"
        ) from None


def _question(
    documents: list[Document], namespace: str, name: str, configuration: KubeSchedulerConfiguration
) -> Question:
    def is_the_pod(document: Document) -> bool:
        metadata = document.get("metadata") or {}
        return document["kind"] == "Pod" and (metadata.get("namespace"), metadata.get("name")) == (
            namespace,
            name,
        )

    pod = next((document for document in documents if is_the_pod(document)), None)
    if pod is None:
        raise SourceError(f"pod {namespace}/{name} is not in the cluster")
    return Question(
        _pending(pod),
        [document for document in documents if not is_the_pod(document)],
        configuration,
    )


def _pending(pod: Document) -> Document:
    """Returns the pod before it was bound: with a node in its spec, it could go nowhere else."""
    return {
        **pod,
        "spec": {
            name: value for name, value in (pod.get("spec") or {}).items() if name != "nodeName"
        },
    }


def _completed(kind: Kind, document: Document, store: Store) -> Document:
    """Returns the object as an API server would store it. Raises SourceError with all of its
    problems.

    Puts what admission looks up into the store. A copy of a stored object, which has a
    uid, has already passed admission. A new PersistentVolume is available, as the volume controller
    would soon make it.
    """
    document = pruned(TYPES[kind.type_name], document)
    metadata = dict(document["metadata"])
    metadata["name"] = name = metadata.get("name") or metadata.get("generateName", "")
    if kind.namespaced:
        metadata["namespace"] = metadata.get("namespace") or "default"
    is_new = not metadata.get("uid")
    if is_new:
        key = f"{kind.kind}/{metadata.get('namespace', '')}/{name}"
        metadata["uid"] = str(uuid5(NAMESPACE_OID, key))
    full = {**document, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    stored = stored_form(kind, defaulted(kind, full))
    faults = problems(kind.type_name, stored)
    if faults:
        raise SourceError(invalid_message(kind.type_name, name, faults))
    if kind in CLASSES and store.find(kind, metadata.get("namespace", ""), name) is None:
        store.create(kind, {**stored, "metadata": {"creationTimestamp": "", **stored["metadata"]}})
    if kind == VOLUMES and is_new and not (document.get("status") or {}).get("phase"):
        stored = {**stored, "status": {**(stored.get("status") or {}), "phase": "Available"}}
    try:
        if kind == CLAIMS and is_new:
            stored = admitted_claim(store, stored)
            check_limits(store, kind, stored)
        if kind == PODS and is_new:
            admitted = admitted_pod(store, with_default_limits(store, stored))
            check_limits(store, kind, admitted)
            stored = {**admitted, "status": document.get("status") or {}}
    except RefusedError as refused:
        raise SourceError(f"{kind.kind} {name}: {refused}") from None
    return stored
