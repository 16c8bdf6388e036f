"""The source of the cluster to explain: manifests, a live API server, or a recorded scenario."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import click
import msgspec

from berth.actors.client.credentials import KubeconfigError
from berth.actors.client.kubeconfig import load
from berth.actors.client.read_only import ReadOnlyClient
from berth.actors.client.rest import (
    ApiError,
    Connection,
    ConnectionFailedError,
)
from berth.actors.runtime.clock import SystemClock
from berth.actors.scheduling.decision.registry import RegistryError
from berth.actors.scheduling.kube.kinds import BY_KIND as WATCHED
from berth.actors.scheduling.kube.kinds import (
    NODES,
    WatchedKind,
)
from berth.actors.scheduling.kube.kinds import PODS as WATCHED_PODS
from berth.actors.telemetry.klog import printable
from berth.config.feature_gates import DEFAULTS, FeatureGateError
from berth.config.load import (
    ConfigError,
    from_mapping,
)
from berth.config.types import KubeSchedulerConfiguration

from ...kubernetes.api.rules.validation import invalid_message, problems
from ...kubernetes.api.store import Store
from ...kubernetes.api.time_and_chance import TimeAndChance
from ...kubernetes.api.types.api_documents import Place, RefusedError, place_of
from ...kubernetes.api.types.conversion import stored_form
from ...kubernetes.api.types.defaults import defaulted, timed
from ...kubernetes.api.types.resources import BY_KIND, KINDS, Kind
from ...kubernetes.api.types.schema import TYPES, pruned
from ...kubernetes.api.writes.admission import (
    CLAIMS,
    NAMESPACES,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    STORAGE_CLASSES,
    admitted_claim,
    admitted_pod,
    with_both_sources,
)
from ...kubernetes.api.writes.evictions import PODS
from ...kubernetes.api.writes.limit_ranges import LIMIT_RANGES, check_limits, with_default_limits
from ...kubernetes.api.writes.new_objects import prepared_object
from ...kubernetes.api.writes.registry import Api
from ...kubernetes.objects.structs import TYPES as TYPES_OF_OBJECTS
from ...kubernetes.objects.structs import read as read_object
from ..manifests.manifests import STRICT, Findings, Manifest, ManifestError, Reading, read
from .document_cluster import decoded
from .eviction_story import eviction
from .pinned_pods import claims_without_maker, claims_without_node, waits_for_volume
from .pod_claims import TEMPLATES, Find, with_claims, without_template
from .subject import WORKLOADS, Subject, next_pod, standing

Document = dict[str, Any]
# Kinds that admission looks up.
CLASSES = (PRIORITY_CLASSES, RUNTIME_CLASSES, STORAGE_CLASSES, LIMIT_RANGES)
# Those of them that no decision reads.
ADMITTING = (PRIORITY_CLASSES, RUNTIME_CLASSES, LIMIT_RANGES)
# Kinds that need not be listed, and what is left out without them.
_DISPENSABLE = {
    PRIORITY_CLASSES.kind: "no higher one is tried",
    TEMPLATES.kind: "no claim is created from one",
}
VOLUMES = BY_KIND["v1", "PersistentVolume"]
NO_OBJECTS = frozenset[Place]()
LONGEST_PREFIX = 58  # of a name that is generated, as in Kubernetes
REQUIRED = tuple((kind.api_version, kind.kind) for kind in (NODES, WATCHED_PODS))


class ClusterQuestion(msgspec.Struct, frozen=True):
    """A pod, the cluster around it, and the configuration of the decision. `standing` says why the
    scheduler does not try the pod now, if it does not. `pinned_to` is the node that the pod names,
    if claims of it wait until a scheduler chooses the node. The objects include those that
    controllers would have `created` for the pod, such as claims. The pod cannot be bound while it
    has `unmade` claims, whose volumes nothing makes. The template of a workload's next pod names
    `its_node`, which exists.
    """

    pod: Document
    objects: list[Document]
    configuration: KubeSchedulerConfiguration
    standing: tuple[str, ...] = ()
    pinned_to: str = ""
    created: tuple[Document, ...] = ()
    unmade: tuple[str, ...] = ()
    its_node: str = ""


class SourceError(ValueError):
    """The source gives no question to decide on; the message says why in one line."""


# The errors with which a question about a cluster ends; each is a line for the user.
NO_ANSWER = (
    SourceError,
    ConfigError,
    FeatureGateError,
    RegistryError,
    KubeconfigError,
    ConnectionFailedError,
)


class Live(msgspec.Struct, frozen=True):
    """A live cluster, as the options name it; "" for an option that is not given."""

    kubeconfig: str = ""
    context: str = ""
    master: str = ""

    @property
    def is_named(self) -> bool:
        return bool(self.kubeconfig or self.context or self.master)


def connection_to(live: Live) -> Connection:
    """Returns the connection to the named live cluster, or to that of $KUBECONFIG or the home
    folder. Raises SourceError without one, KubeconfigError if the named one cannot be used.
    """
    try:
        return load(live.kubeconfig or None, live.context, live.master, home=not live.master)
    except KubeconfigError as problem:
        if live.is_named:
            raise
        raise SourceError(f"{problem}, or -f with the files of a cluster") from None


def from_manifests(
    paths: Iterable[Path],
    kinds: Collection[WatchedKind] = (),
    cluster: Sequence[Document] = (),
    reading: Reading = STRICT,
    *,
    needs_nodes: bool = True,
) -> list[Document]:
    """Returns the objects of a cluster, overridden by those of files, which get the API's defaults.

    Objects of `kinds`, which plugins declare, are taken as they are. What is wrong goes to the
    findings, which are printed on standard error with the kinds that are left out. Raises
    SourceError.
    """
    declared = {(kind.api_version, kind.kind) for kind in kinds}
    try:
        manifests = read(paths, declared, reading)
    except ManifestError as problem:
        raise SourceError(str(problem)) from None
    store, findings = classes_of(cluster), reading.findings
    places = {place_of(document) for document in cluster}
    completed = completed_objects(manifests.objects, store, findings, places.__contains__)
    objects = {place_of(document): document for document in completed}
    print_lines(*findings.untold(), manifests.left_out_line)
    kept = [document for document in cluster if place_of(document) not in objects]
    documents = [*kept, *objects.values(), *manifests.others]
    if needs_nodes and not any(document["kind"] == "Node" for document in documents):
        raise SourceError(
            "the files have no Node: add one, or name the cluster with --kubeconfig or --master"
        )
    return [*documents, *_implied_namespaces(documents, store)]


def print_lines(*lines: str) -> None:
    """Prints the lines that are not empty on standard error."""
    for line in filter(None, lines):
        click.echo(printable(line), err=True)


def completed_objects(
    manifests: Iterable[Manifest],
    store: Store,
    findings: Findings,
    is_taken: Callable[[Place], bool] = NO_OBJECTS.__contains__,
) -> Iterator[Document]:
    """Yields the objects of manifests as an API server would store them, beginning with those that
    admission looks up. An object that it would refuse goes to the findings. Raises SourceError if
    these are strict.

    An object without a name gets that of generateName and a number, which is not taken.
    """
    ordered = sorted(manifests, key=lambda of: of.kind not in CLASSES)
    places = {_place_of(kind, document) for kind, document, _ in ordered}
    for kind, document, where in ordered:
        named = document
        metadata = document["metadata"]
        if metadata.get("generateName") and not metadata.get("name"):
            prefix = metadata["generateName"][:LONGEST_PREFIX]
            candidates = (
                {**document, "metadata": {**metadata, "name": f"{prefix}{number}"}}
                for number in count(1)
            )
            named = next(
                of
                for of in candidates
                if not (_place_of(kind, of) in places or is_taken(_place_of(kind, of)))
            )
            places.add(_place_of(kind, named))
        try:
            yield completed_object(kind, named, store)
        except SourceError as problem:
            if findings.strict:
                raise
            findings.problem(f"{where}: {problem}")


def _place_of(kind: Kind, document: Document) -> Place:
    metadata = document["metadata"]
    namespace = metadata.get("namespace") or "default" if kind.namespaced else ""
    return kind.kind, namespace, metadata.get("name") or ""


def empty_store() -> Store:
    """Returns an empty store. Objects in it are created at the time of this machine."""
    return Store(TimeAndChance(SystemClock().wall, Random()))


def classes_of(cluster: Iterable[Document]) -> Store:
    """Returns a store with the objects that admission looks up: the built-in ones and the
    cluster's.
    """
    store = empty_store()
    Api(store).seed()
    for document in cluster:
        kind = BY_KIND.get((document["apiVersion"], document["kind"]))
        if kind in CLASSES:
            _put_readable(store, kind, document)
    return store


def _put_readable(store: Store, kind: Kind, document: Document) -> None:
    metadata = {"creationTimestamp": "", **document["metadata"]}
    if store.find(kind, metadata.get("namespace", ""), metadata["name"]) is None:
        store.create(kind, {**document, "metadata": metadata})


def _implied_namespaces(documents: Sequence[Document], store: Store) -> list[Document]:
    """Returns the namespaces that objects name and that are not among the documents. Selectors of
    namespaces match them by name.
    """
    used = dict.fromkeys(
        (document.get("metadata") or {}).get("namespace") for document in documents
    )
    known = {d["metadata"].get("name") for d in documents if d["kind"] == NAMESPACES.kind}
    return [
        completed_object(NAMESPACES, {"metadata": {"name": name}}, store)
        for name in used
        if name and name not in known
    ]


async def from_cluster(
    connection: Connection, kinds: Collection[WatchedKind] = (), others: Collection[Kind] = ()
) -> list[Document]:
    """Returns the objects of a live cluster that a decision reads, including objects of `kinds`,
    which plugins declare, and of `others`.

    A kind that the API server does not serve has no objects. Leaves out objects that cannot be
    read, and priority classes and claim templates that may not be listed, and says so on standard
    error. Raises SourceError or ConnectionFailedError.
    """
    documents: list[Document] = []
    async with ReadOnlyClient(connection) as client:
        for (version, name), path in paths_of(kinds, others).items():
            try:
                listed = await client.page(path, dict)
            except ApiError as refused:
                if refused.code == 404 and (version, name) not in REQUIRED:
                    continue
                if refused.code == 403 and name in _DISPENSABLE:
                    click.echo(printable(f"{name}: {refused}; {_DISPENSABLE[name]}"), err=True)
                    continue
                raise SourceError(f"{name}: {refused}") from None
            items = (
                {**item, "apiVersion": version, "kind": name} for item in _items_of(listed, name)
            )
            documents += [item for item in items if can_be_read(item, kinds)]
    return documents


def _items_of(listed: Document, name: str) -> Iterator[Document]:
    """Yields the objects of an API server's list. Items that are no objects are left out, and
    reported on standard error. Raises SourceError for an answer that is no list, such as a failure
    with status 200.
    """
    items = listed.get("items") or ()
    if listed.get("kind") == "Status" or not isinstance(items, (list, tuple)):
        raise SourceError(f"{name}: expected a list, got {listed.get('message') or listed!r:.80}")
    for item in items:
        if isinstance(item, dict):
            yield item
        else:
            line = f"a {name} cannot be read and is left out: expected an object, got {item!r:.80}"
            click.echo(printable(line), err=True)


def paths_of(
    kinds: Collection[WatchedKind], others: Collection[Kind]
) -> dict[tuple[str, str], str]:
    """Returns the paths of the kinds that a decision reads, and of further ones, by apiVersion and
    name.
    """
    paths = {(kind.api_version, kind.kind): kind.path for kind in (*kinds, *WATCHED.values())}
    for other in others:
        paths.setdefault((other.api_version, other.kind), other.path())
    return paths


def can_be_read(document: Document, kinds: Collection[WatchedKind]) -> bool:
    """False if an object cannot be read. The reason is printed on standard error."""
    problem = "metadata.name: expected a name"
    try:
        decodings = list(decoded(document, kinds))
        if document["kind"] in WORKLOADS:
            decodings.append(read_object(document, TYPES_OF_OBJECTS[document["kind"]]))
    except msgspec.ValidationError as invalid:
        problem = str(invalid)
    else:
        if (document.get("metadata") or {}).get("name") and all(d.metadata.name for d in decodings):
            return True
    line = f"a {document['kind']} cannot be read and is left out: {problem}"
    click.echo(printable(line), err=True)
    return False


def from_scenario(
    line: bytes | str, gates: Mapping[str, bool] = DEFAULTS
) -> tuple[str, ClusterQuestion]:
    """Returns the name and the question of a line of the recordings, whose configuration is read
    with these feature gates. Raises SourceError.
    """
    try:
        scenario = msgspec.json.decode(line)
        configuration = from_mapping(scenario["config"], gates)
        return scenario["name"], ClusterQuestion(
            scenario["pod"], scenario["objects"], configuration
        )
    except ConfigError as invalid:
        raise SourceError(f"config: {invalid}") from None
    # msgspec raises ValueErrors for what is no JSON.
    except (ValueError, RecursionError, KeyError, TypeError) as problem:
        raise SourceError(
            f"expected a scenario with name, config, objects and pod: {problem!r}"
        ) from None


def kinds_besides(subject: Subject, *, files: bool) -> list[Kind]:
    """Returns the kinds that a question reads in addition to the kinds of a decision.

    These are the priority classes that the pod could have, the kinds that admission looks up for
    new objects, the templates of claims, and the kind of a workload.
    """
    workloads = [kind for kind in KINDS if kind.kind == subject.kind and kind.stored_as is None]
    if files or subject.kind != "Pod":
        return [*ADMITTING, TEMPLATES, *workloads]
    return [PRIORITY_CLASSES] if subject.name else []


def question_about(
    subject: Subject,
    documents: list[Document],
    configuration: KubeSchedulerConfiguration,
    *,
    templates: bool = False,
) -> ClusterQuestion:
    """Returns the question about a pod of the cluster, or about the next pod of a workload. The
    documents have all `templates` of device claims, or none that a pod can miss. Raises
    SourceError.
    """
    document = subject.is_in(documents)
    if document is None:
        namespaces = ", ".join(subject.namespaces(documents))
        elsewhere = f"; {subject.name} is in {namespaces}: choose with -n" if namespaces else ""
        near = elsewhere or subject.near(documents)
        raise SourceError(f"{subject} is not in the cluster{near}")
    if subject.kind == "Pod":
        others = [other for other in documents if other is not document]
        nodes = {other["metadata"]["name"] for other in others if other["kind"] == "Node"}
        waiting = claims_without_node(document, others)
        lacking = _unmade(document, others)
        stands = standing(document, nodes, lacking)
        missing = without_template(document, _finder(others)) if templates else ()
        sentences = (*stands, *waiting, *missing, *eviction(document, others))
        pinned_to = document["spec"]["nodeName"] if waiting else ""
        pod, created = _with_device_claims(_as_pending(document), others)
        objects = [*others, *created]
        made = tuple(created)
        return ClusterQuestion(pod, objects, configuration, sentences, pinned_to, made, lacking)
    try:
        pod, claims = next_pod(document, documents)
    except msgspec.ValidationError as invalid:
        raise SourceError(f"{subject}: {invalid}") from None
    store = classes_of(documents)
    created = [completed_object(CLAIMS, claim, store) for claim in claims]
    pod, of_devices = _with_device_claims(completed_object(PODS, pod, store), documents)
    created += of_devices
    objects = [*documents, *created]
    lacking = _unmade(pod, objects)
    waits = [waits_for_volume(lacking)] if lacking else []
    waits += without_template(pod, _finder(documents)) if templates else []
    node = pod["spec"].get("nodeName", "")
    exists = Subject("Node", "", node).is_in(documents) is not None
    if node:
        which = "" if exists else ", which does not exist"
        waits.append(f"names its node {node}{which}, so that no scheduler is asked")
    return ClusterQuestion(
        pod,
        objects,
        configuration,
        tuple(waits),
        created=tuple(created),
        unmade=lacking,
        its_node=node if exists else "",
    )


def _unmade(pod: Document, documents: Sequence[Document]) -> tuple[str, ...]:
    def every(kind: str) -> Iterator[Document]:
        return (document for document in documents if document["kind"] == kind)

    def find(kind: str, name: str, namespace: str) -> Document | None:
        wanted = name, namespace
        places = ((of["metadata"], of) for of in every(kind))
        named = (of for at, of in places if (at["name"], at.get("namespace") or "") == wanted)
        return next(named, None)

    return claims_without_maker(pod, find, every)


def _with_device_claims(
    pod: Document, documents: Iterable[Document]
) -> tuple[Document, list[Document]]:
    return with_claims(pod, _finder(documents), completed_alone)


def _finder(documents: Iterable[Document]) -> Find:
    def find(kind: str, name: str, namespace: str) -> Document | None:
        return Subject(kind, namespace, name).is_in(documents)

    return find


def _as_pending(pod: Document) -> Document:
    """Returns the pod as it was before it was bound: with a nodeName it would fit on that node
    only.
    """
    return {
        **pod,
        "spec": {
            name: value for name, value in (pod.get("spec") or {}).items() if name != "nodeName"
        },
    }


def completed_alone(kind: Kind, document: Document) -> Document:
    """Returns an object as an API server would store it that has no other objects."""
    return completed_object(kind, document, empty_store())


def completed_object(kind: Kind, document: Document, store: Store) -> Document:
    """Returns the object as an API server would store it. Raises SourceError with all of its
    problems.

    Objects that admission looks up are put into the store. A copy of a stored object, which has a
    uid, has already passed admission. A new PersistentVolume is available, as the volume controller
    would soon make it.
    """
    document = pruned(TYPES[kind.type_name], document)
    metadata = dict(document["metadata"])
    metadata["name"] = name = metadata.get("name") or ""
    if kind.namespaced:
        metadata["namespace"] = metadata.get("namespace") or "default"
    else:
        metadata.pop("namespace", None)
    is_new = not metadata.get("uid")
    if is_new:
        key = f"{kind.kind}/{metadata.get('namespace', '')}/{name}"
        metadata["uid"] = str(uuid5(NAMESPACE_OID, key))
    full = {**document, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    if is_new:
        full = prepared_object(kind, full)
    stored = timed(kind, defaulted(kind, full), store.outside.now)
    stored = stored_form(kind, stored)
    if kind == CLAIMS:
        stored = with_both_sources(stored, None)
    faults = problems(kind.type_name, stored)
    if faults:
        raise SourceError(invalid_message(kind.type_name, name, faults))
    if kind in CLASSES:
        _put_readable(store, kind, stored)
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
