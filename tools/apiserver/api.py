"""What requests do to the store: create, update, patch, delete, bind, evict, scale. No HTTP here.

Mirrors the generic registry of the API server with the strategies of the kinds: how a document is
decoded, which fields a client may set, when a generation moves, what a deletion waits for. Every
method raises Refused with what the API would answer.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from typing import Any

from berth.tools.apiserver.admission import (
    CLAIMS,
    PRIORITY_CLASSES,
    admitted_claim,
    admitted_pod,
    readmitted_pod,
)
from berth.tools.apiserver.clock import now
from berth.tools.apiserver.conditions import with_condition
from berth.tools.apiserver.conversion import served_form, stored_form
from berth.tools.apiserver.defaults import defaulted
from berth.tools.apiserver.eviction import PODS, check_eviction, mark_disrupted
from berth.tools.apiserver.patch import STRATEGIC, patched
from berth.tools.apiserver.requests import (
    Binding,
    DeleteOptions,
    Eviction,
    Named,
    Preconditions,
    Replicas,
    Scale,
    converted,
)
from berth.tools.apiserver.resources import BY_KIND, CONDITIONAL, KINDS, Kind
from berth.tools.apiserver.schema import TYPES, pruned, strict_message, unknown_and_mistyped
from berth.tools.apiserver.selectors import Matches
from berth.tools.apiserver.store import Document, Refused, Store, Stored
from berth.tools.apiserver.validation import invalid_details, invalid_message, problems

NAMESPACES = BY_KIND["v1", "Namespace"]
NODES = BY_KIND["v1", "Node"]
FIRST_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
FIRST_CLASSES = (("system-cluster-critical", 2000000000), ("system-node-critical", 2000001000))
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
MOST_PROBLEMS = 1000  # that a refusal tells of
LONGEST_PREFIX = 58  # of a generated name, which is a label of at most 63 characters
OWNED_BY_SERVER = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "namespace",
)
OVER = ("Succeeded", "Failed")


class Api:
    """Does requests on a store.

    `validation` is their fieldValidation: unknown fields and `duplicates` are refused if Strict,
    and told in `warnings` if Warn. In any case they are not kept.
    """

    def __init__(
        self, store: Store, validation: str = "Ignore", duplicates: Sequence[str] = ()
    ) -> None:
        self.store = store
        self.warnings: list[str] = []
        self._validation = validation
        self._duplicates = duplicates

    def seed(self) -> None:
        """What every cluster has from its first moment."""
        for name in FIRST_NAMESPACES:
            if self.store.find(NAMESPACES, "", name) is None:
                self.create(NAMESPACES, "", {"metadata": {"name": name}})
        for name, value in FIRST_CLASSES:
            if self.store.find(PRIORITY_CLASSES, "", name) is None:
                self.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})

    def create(self, kind: Kind, namespace: str, document: Document) -> Stored:
        document = self._decoded(kind, document)
        metadata = dict(document.get("metadata") or {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"][:LONGEST_PREFIX] + "".join(
                random.choices(ALPHABET, k=5)
            )
        if kind.namespaced:
            self._check_namespace(namespace, metadata)
            metadata["namespace"] = namespace
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": now()}
        for field in (
            "resourceVersion",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
        ):
            metadata.pop(field, None)
        made = {**document, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        if kind.status:
            metadata["generation"] = 1
            if kind != NODES:
                made.pop("status", None)
        made = stored_form(kind, defaulted(kind, made))
        if kind == PODS:
            made = admitted_pod(self.store, made)
        elif kind == CLAIMS:
            made = admitted_claim(self.store, made)
        _check(kind, made, None)
        return self.store.create(kind, made)

    def update(
        self, kind: Kind, namespace: str, name: str, document: Document, subresource: str
    ) -> Stored:
        """Replace an object, or only its status. A pod's binding is no matter of an update."""
        before = self.store.get(kind, namespace, name)
        document = self._decoded(kind, document)
        given = document.get("metadata") or {}
        for field, here in (("name", name), ("namespace", namespace)):
            if (given.get(field) or here) != here:
                message = f"the {field} of the object ({given[field]}) does not match the {field} on the URL ({here})"
                raise Refused(400, "BadRequest", message)
        if given.get("uid", before["metadata"]["uid"]) != before["metadata"]["uid"]:
            raise _conflict(kind, name, f"Precondition failed: UID in precondition: {given['uid']}, "
                            f"UID in object meta: {before['metadata']['uid']}")  # fmt: skip
        wanted = _wanted_version(kind, given, before)
        if subresource == "status":
            metadata = {**before["metadata"], "resourceVersion": wanted}
            after = {**before, "metadata": metadata, "status": document.get("status") or {}}
            return self.store.update(kind, defaulted(kind, after) if kind == NODES else after)
        metadata = {**given, "name": name, "resourceVersion": wanted}
        for field in OWNED_BY_SERVER:
            metadata.pop(field, None)
            if field in before["metadata"]:
                metadata[field] = before["metadata"][field]
        after = {
            **document,
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": metadata,
        }
        after = stored_form(kind, defaulted(kind, after))
        if kind == PODS:
            after = readmitted_pod(after, before)
        if kind.status:
            after.pop("status", None)
            if "status" in before:
                after["status"] = before["status"]
            metadata["generation"] = before["metadata"].get("generation", 1) + (
                after.get("spec") != before.get("spec")
            )
        if kind == PODS and after["spec"].get("nodeName") != before["spec"].get("nodeName"):
            problem = (
                "spec.nodeName: Forbidden: a pod is bound through its binding subresource only"
            )
            raise Refused(422, "Invalid", f'Pod "{name}" is invalid: {problem}')
        if subresource != "resize":
            _check(kind, after, before)
        written = self.store.update(kind, after)
        waits = (
            metadata.get("finalizers")
            or metadata.get("deletionGracePeriodSeconds")
            or kind == NAMESPACES
        )
        return (
            written
            if "deletionTimestamp" not in metadata or waits
            else self._remove(kind, namespace, name)
        )

    def patch(
        self, kind: Kind, namespace: str, name: str, patch: Any, how: str, subresource: str
    ) -> Stored:
        """What is there with the patch applied. It has the latest resourceVersion unless the patch
        names one.
        """
        if subresource == "scale":
            return self.rescale(
                kind,
                namespace,
                name,
                patched(kind, self.scale_of(kind, namespace, name), patch, how),
            )
        after = patched(kind, served_form(kind, self.store.get(kind, namespace, name)), patch, how)
        return self.update(kind, namespace, name, after, subresource)

    def apply(
        self, kind: Kind, namespace: str, name: str, document: Document, subresource: str
    ) -> tuple[Stored, bool]:
        """Server-side apply, without ownership of fields: merge into what is there, or create; true
        if created.
        """
        if not subresource and self.store.find(kind, namespace, name) is None:
            return self.create(kind, namespace, document), True
        return self.patch(kind, namespace, name, document, STRATEGIC, subresource), False

    def delete(self, kind: Kind, namespace: str, name: str, options: DeleteOptions) -> Stored:
        """A running pod gets its grace, what has finalizers waits for them, a namespace goes when
        it is empty.
        """
        before = self.store.stored(kind, namespace, name)
        metadata = before.document["metadata"]
        wanted = options.preconditions or Preconditions()
        for asked, have in (
            (wanted.uid, metadata["uid"]),
            (wanted.resource_version, metadata["resourceVersion"]),
        ):
            if asked is not None and asked != have:
                raise _conflict(kind, name, f"Precondition failed: expected {asked}, found {have}")
        if options.propagation_policy == "Orphan":
            self._orphan(metadata["uid"])
        if kind == NAMESPACES:
            return self._end_namespace(before)
        grace = _grace(before.document, options.grace_period_seconds) if kind == PODS else 0
        if not grace and not metadata.get("finalizers"):
            return self._remove(kind, namespace, name)
        deadline = metadata.get("deletionGracePeriodSeconds")
        if deadline is not None and grace >= deadline:
            return before
        doomed = {**metadata, "deletionTimestamp": metadata.get("deletionTimestamp") or now()}
        doomed["deletionGracePeriodSeconds"] = grace
        return self.store.update(kind, {**before.document, "metadata": doomed})

    def delete_all(
        self, kind: Kind, namespace: str, matches: Matches | None, options: DeleteOptions
    ) -> list[Stored]:
        found = [
            s for s in self.store.list(kind, namespace) if matches is None or matches(s.document)
        ]
        return [self.delete(kind, *_place(stored), options) for stored in found]

    def bind(self, namespace: str, name: str, binding: Document) -> None:
        """409 if the pod is bound, deleting or gated, or is another pod of that name."""
        pod = self.store.get(PODS, namespace, name)
        asked = converted(binding, Binding)
        node, uid = (asked.target or Named()).name, (asked.metadata or Named()).uid
        problem = ""
        if not node:
            raise Refused(
                422, "Invalid", f'Binding "{name}" is invalid: target.name: Required value'
            )
        if uid and uid != pod["metadata"]["uid"]:
            problem = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {pod['metadata']['uid']}"
        elif "deletionTimestamp" in pod["metadata"]:
            problem = f"pod {name} is being deleted, cannot be assigned to a host"
        elif pod["spec"].get("nodeName"):
            problem = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        elif pod["spec"].get("schedulingGates"):
            problem = f"pod {name} has non-empty .spec.schedulingGates"
        if problem:
            message = f'Operation cannot be fulfilled on pods/binding "{name}": {problem}'
            raise Refused(409, "Conflict", message)
        status = with_condition(pod["status"], "PodScheduled", "True")
        status.pop("nominatedNodeName", None)
        self.store.update(
            PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status}
        )

    def evict(self, namespace: str, name: str, eviction: Document) -> None:
        """Delete a pod if its disruption budget allows that; 429 if not."""
        pod = self.store.get(PODS, namespace, name)
        options = converted(eviction, Eviction).delete_options or DeleteOptions()
        check_eviction(self.store, pod)
        mark_disrupted(self.store, pod)
        self.delete(PODS, namespace, name, options)

    def scale_of(self, kind: Kind, namespace: str, name: str) -> Document:
        """The Scale of a workload."""
        document = self.store.get(kind, namespace, name)
        kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        selector = document["spec"].get("selector") or {}
        labels = selector.get("matchLabels", selector if kind.group == "" else {})
        return {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {field: document["metadata"][field] for field in kept},
            "spec": {"replicas": document["spec"].get("replicas", 0)},
            "status": {
                "replicas": (document.get("status") or {}).get("replicas", 0),
                "selector": ",".join(f"{key}={value}" for key, value in labels.items()),
            },
        }

    def rescale(self, kind: Kind, namespace: str, name: str, scale: Document) -> Stored:
        """Set the replicas of a workload from its Scale."""
        document = self.store.get(kind, namespace, name)
        asked = converted(scale, Scale)
        replicas = (asked.spec or Replicas()).replicas
        if replicas < 0:
            problem = (
                f"spec.replicas: Invalid value: {replicas}: must be greater than or equal to 0"
            )
            raise Refused(422, "Invalid", f'Scale "{name}" is invalid: {problem}')
        wanted = (asked.metadata or Named()).resource_version or document["metadata"][
            "resourceVersion"
        ]
        metadata = {**document["metadata"], "resourceVersion": wanted}
        spec = {**document["spec"], "replicas": replicas}
        return self.update(
            kind, namespace, name, {**document, "metadata": metadata, "spec": spec}, ""
        )

    def _decoded(self, kind: Kind, document: Document) -> Document:
        """What its kind reads of a document. Raises Refused with 400 for a wrong type, or if it is
        strict.
        """
        found = unknown_and_mistyped(kind.type_name, document)
        if found.mistyped:
            raise Refused(400, "BadRequest", found.mistyped)
        unknown = [*found.unknown, *self._duplicates]
        if unknown and self._validation == "Strict":
            raise Refused(400, "BadRequest", strict_message(kind.type_name, unknown))
        if self._validation == "Warn":
            self.warnings += unknown
        if not found.nulls and not found.unknown:
            return document  # nothing is to be left out
        kept: Document = pruned(TYPES[kind.type_name], document)
        return kept

    def _check_namespace(self, namespace: str, metadata: dict[str, Any]) -> None:
        given = metadata.get("namespace") or namespace
        if given != namespace:
            message = f"the namespace of the provided object does not match the namespace sent on the request: expected {namespace}, got {given}"  # noqa: E501
            raise Refused(400, "BadRequest", message)
        if "deletionTimestamp" in self.store.get(NAMESPACES, "", namespace)["metadata"]:
            message = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise Refused(403, "Forbidden", message)

    def _remove(self, kind: Kind, namespace: str, name: str) -> Stored:
        gone = self.store.delete(kind, namespace, name)
        home = self.store.find(NAMESPACES, "", namespace) if namespace else None
        if (
            home is not None
            and "deletionTimestamp" in home["metadata"]
            and self._is_empty(namespace)
        ):
            self.store.delete(NAMESPACES, "", namespace)
        return gone

    def _is_empty(self, namespace: str) -> bool:
        return not any(
            True for kind in KINDS if kind.namespaced for _ in self.store.list(kind, namespace)
        )

    def _end_namespace(self, namespace: Stored) -> Stored:
        """Nothing new comes into a namespace that is being deleted, and what is in it is
        deleted.
        """
        name = namespace.document["metadata"]["name"]
        if name in FIRST_NAMESPACES:
            raise Refused(
                403,
                "Forbidden",
                f'namespaces "{name}" is forbidden: this namespace may not be deleted',
            )
        metadata = {"deletionTimestamp": now(), **namespace.document["metadata"]}
        ending = self.store.update(
            NAMESPACES,
            {**namespace.document, "metadata": metadata, "status": {"phase": "Terminating"}},
        )
        for kind in KINDS:
            if kind.namespaced:
                for stored in list(self.store.list(kind, name)):
                    self.delete(kind, *_place(stored), DeleteOptions())
        if self.store.find(NAMESPACES, "", name) is not None and self._is_empty(name):
            return self.store.delete(NAMESPACES, "", name)
        return ending

    def _orphan(self, uid: str) -> None:
        """Make what an object owns owned by nobody."""
        for kind, stored in list(self.store.everything()):
            metadata = stored.document["metadata"]
            owners = metadata.get("ownerReferences") or ()
            if any(owner.get("uid") == uid for owner in owners):
                kept = [owner for owner in owners if owner.get("uid") != uid]
                self.store.update(
                    kind, {**stored.document, "metadata": {**metadata, "ownerReferences": kept}}
                )


def _wanted_version(kind: Kind, given: Document, before: Document) -> str:
    """The version that an update is of: the latest if it names none. Raises Refused with 422 where
    it has to.
    """
    wanted = given.get("resourceVersion") or "0"
    if wanted != "0":
        return str(wanted)
    if kind.kind in CONDITIONAL:
        problem = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        raise Refused(
            422, "Invalid", f'{kind.resource} "{before["metadata"]["name"]}" is invalid: {problem}'
        )
    return str(before["metadata"]["resourceVersion"])


def _check(kind: Kind, document: Document, before: Document | None) -> None:
    """Raises Refused with 422 and what is wrong with an object, but for what is far too much."""
    found = problems(kind.type_name, document, before)[:MOST_PROBLEMS]
    if found:
        name = document["metadata"].get("name", "")
        details = invalid_details(kind.type_name, name, found)
        raise Refused(422, "Invalid", invalid_message(kind.type_name, name, found), details)


def _grace(pod: Document, asked: int | None) -> int:
    """Seconds; none for a pod that no kubelet looks after, or that is over."""
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in OVER:
        return 0
    return (
        int(pod["spec"].get("terminationGracePeriodSeconds", 30))
        if asked is None
        else max(asked, 0)
    )


def _place(stored: Stored) -> tuple[str, str]:
    metadata = stored.document["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _conflict(kind: Kind, name: str, why: str) -> Refused:
    return Refused(
        409, "Conflict", f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    )
