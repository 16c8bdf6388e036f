"""Applies requests to the store: create, update, patch, delete, bind, evict, scale. No HTTP here.

Mirrors the API server's generic registry and its strategies for each kind: how a document is
decoded, which fields a client may set, when the generation increases, what a deletion waits for.
Every method raises RefusedError with the API server's answer.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from types import EllipsisType
from typing import Any

import msgspec

from ..requests.field_managers import CONTROLLERS
from ..requests.media_types import STRATEGIC
from ..requests.request_bodies import DeleteOptions, NamedObject
from ..requests.request_content import of_kind
from ..requests.selectors import Matches
from ..store import DEFINITIONS, Store
from ..types.api_documents import Document, RefusedError, StoredObject, names_of
from ..types.conversion import (
    in_stored_version,
    prepare_conversion,
    served_form,
    stored_form,
)
from ..types.defaults import defaulted, timed
from ..types.field_entries import FieldEntries
from ..types.resources import Kind
from ..types.schema import pruned, replaced, strict_message, unknown_and_mistyped
from .admission import (
    NAMESPACES,
    check_namespace,
)
from .admission_order import AdmissionAttributes, admitted
from .caller import Caller
from .custom_objects import decoded_custom
from .custom_scale import check_replicas
from .definition_ends import check_not_ending, end_definition, end_if_unused, settle_names
from .deletion import check_deletion, deleted_now, finalizers_for, grace_seconds
from .evictions import PODS, mark_disrupted, read_eviction, take_permission
from .field_tracking import FieldTracker, mentions_entries, without_entries
from .first_objects import first_objects, renew_certificates
from .namespace_ends import end_if_empty, terminating
from .namespace_objects import is_of_every_namespace, missing_objects, restore_certificate
from .new_objects import prepared_object
from .patch import patched_document
from .pod_binding import bound_pod, read_binding
from .refusals import (
    check_applied_place,
    check_no_version,
    check_place,
    deletion_problems,
    expected_version,
    refuse_invalid,
    uid_problems,
    undecodable,
)
from .replica_scale import scale_of, with_replicas
from .resource_quotas import open_ledgers, settle_quotas
from .status_updates import NODES, shape_of, with_status, with_whole_conditions

MOST_NAMES = 8  # that are generated for an object, as long as they exist already
RBAC = "rbac.authorization.k8s.io"
# The kinds of which a PUT also creates an object.
CREATED_BY_PUT = {
    *(("", kind) for kind in ("Endpoints", "Event", "LimitRange", "Service")),
    *(("coordination.k8s.io", kind) for kind in ("Lease", "LeaseCandidate")),
    *(("events.k8s.io", "Event"), ("node.k8s.io", "RuntimeClass")),
    *((RBAC, kind) for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")),
}
NOT_UNIQUE = ", the server was not able to generate a unique name for the object"
LONGEST_PREFIX = 58  # of a generated name, so that it has at most 63 characters
WITH_STATUS = ("metadata", "status")  # the parts of an object that a write of its status changes
OWNED_BY_SERVER = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "namespace",
)


class Api:
    """The requests to a store.

    `validation` is the request's fieldValidation. Unknown and `duplicates` fields are an error if
    it is Strict, and are added to `warnings` if it is Warn. Unknown fields are never stored. Checks
    that depend on the `caller` are left out without a caller. `manager` is the name under which the
    written fields are tracked; without one they are not.
    """

    def __init__(
        self,
        store: Store,
        validation: str = "Ignore",
        duplicates: Sequence[str] = (),
        caller: Caller | None = None,
        manager: str | None = None,
    ) -> None:
        self.store = store
        self.warnings: list[str] = []
        self._validation = validation
        self._duplicates = duplicates
        self._caller = caller
        self._fields = FieldTracker(store, manager)

    def seed(self) -> None:
        """Creates the objects that every cluster starts with, unless they are there."""
        open_ledgers(self.store)
        for kind, namespace, document in first_objects(self.store):
            if self.store.find(kind, namespace, document["metadata"]["name"]) is None:
                self.create(kind, namespace, document)
        renew_certificates(self.store)
        for stored in list(self.store.list(NAMESPACES)):
            self._furnish(stored.document["metadata"]["name"])

    def _furnish(self, namespace: str) -> None:
        """Creates what a namespace lacks of the objects that every namespace has."""
        manager = None if self._fields.manager is None else CONTROLLERS
        for kind, document in missing_objects(self.store, namespace):
            with suppress(RefusedError):  # a quota may refuse it
                Api(self.store, manager=manager).create(kind, namespace, document)

    def admit(
        self,
        operation: str,
        kind: Kind,
        namespace: str,
        name: str,
        after: Document | None,
        before: Document | None,
        subresource: str = "",
    ) -> None:
        """Raises RefusedError if admission refuses a write. Stores nothing."""
        if self._caller is not None:
            write = self.store, operation, kind, (namespace, name), after, before, subresource
            self._caller.check_node(*write)
            self.warnings += self._caller.warnings(*write)

    def create(
        self, kind: Kind, namespace: str, document: Document, entries: FieldEntries | None = None
    ) -> StoredObject:
        """Creates an object. If a generated name is taken, tries another one. Raises
        RefusedError.

        `entries` are those of an object that an apply creates.
        """
        check_not_ending(self.store, kind, document)
        document, sent = without_entries(self._decoded(kind, document))
        metadata = document.get("metadata") or {}
        prefix = metadata.get("generateName")
        tries = MOST_NAMES if prefix and not metadata.get("name") else 1
        warned = len(self.warnings)
        while True:
            tries -= 1
            try:
                return self._create(kind, namespace, document, entries or sent)
            except RefusedError as refused:
                if not prefix or refused.reason != "AlreadyExists":
                    raise
                if not tries:
                    message = f"{refused}{NOT_UNIQUE}"
                    raise RefusedError(
                        refused.code, refused.reason, message, refused.details
                    ) from None
                del self.warnings[warned:]

    def _create(self, kind: Kind, namespace: str, document: Document, sent: Any) -> StoredObject:
        metadata, outside = dict(document.get("metadata") or {}), self.store.outside
        if not metadata.get("name") and metadata.get("generateName"):
            suffix = outside.name_suffix()
            metadata["name"] = metadata["generateName"][:LONGEST_PREFIX] + suffix
        if kind.namespaced:
            check_namespace(self.store, kind, namespace, metadata)
            metadata["namespace"] = namespace
        else:
            metadata.pop("namespace", None)
        metadata |= {"uid": outside.new_uid(), "creationTimestamp": outside.now()}
        for field in (
            "resourceVersion",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
        ):
            metadata.pop(field, None)
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        created = {**head, **document, **head, "metadata": metadata}
        if kind.counts_generations:
            metadata["generation"] = 1
        if kind.status and kind != NODES:
            created.pop("status", None)
        prepared = prepared_object(kind, created)
        decoded = self._defaulted(kind, stored_form(kind, created))
        if prepared is not created:
            created = self._defaulted(kind, stored_form(kind, prepared))
        else:
            created = decoded
        entries = self._fields.of_new(kind, decoded, sent)
        attempt = AdmissionAttributes(self.store, self._caller, self.warnings, kind, created, None)
        created = in_stored_version(kind, admitted(attempt))
        if document.get("metadata"):
            check_no_version(document["metadata"])
        stored = settle_quotas(self.store, kind, self.store.create(kind, created, entries))
        if kind is NAMESPACES:
            self._furnish(metadata["name"])
        elif kind is DEFINITIONS:
            settle_names(self.store, created)
        return stored

    def put(
        self, kind: Kind, namespace: str, name: str, document: Document, subresource: str
    ) -> tuple[StoredObject, bool]:
        """Replaces an object, or creates one of some kinds. Returns True beside the object if it
        was created.
        """
        sent = document.get("metadata")
        named = isinstance(sent, dict) and (sent.get("name"), sent.get("resourceVersion"))
        creates = not subresource and (kind.group, kind.kind) in CREATED_BY_PUT
        if not creates or named != (name, None) or self.store.find(kind, namespace, name):
            return self.update(kind, namespace, name, document, subresource), False
        if self._caller is not None:
            self._caller.check_create(self.store, kind, namespace, name)
        return self.create(kind, namespace, document), True

    def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        document: Document,
        subresource: str,
        patch: Any = None,
        entries: FieldEntries | None = None,
        tracked_as: str = "",
    ) -> StoredObject:
        """Replaces an object or, for the status subresource, only its status. `patch` is the
        strategic merge patch that made the document, {} for another patch, None for no patch.

        `entries` are those that an apply made. `tracked_as` is another subresource under which the
        written fields are tracked.
        Raises RefusedError with 422 if the update would change a pod's node: only bind does that.
        """
        stored = self.store.stored(kind, namespace, name)
        before = stored.document
        if kind.custom is not None:
            before = served_form(kind, before)
        document, claimed = self._claimed(kind, document, subresource, stored, before, patch)
        claimed = entries or claimed
        sent = document.get("metadata") or {}
        check_place(kind, sent, before)
        version = expected_version(kind, sent, before)
        refuse_invalid(kind, before, deletion_problems(sent, before["metadata"]))
        if subresource in ("status", "approval"):
            write = self.store, self._caller, self.warnings, kind, document, before, subresource
            after = with_status(AdmissionAttributes(*write), version)
            self.admit("UPDATE", kind, *names_of(after), after, before, subresource)
            entries = self._fields.of_update(kind, stored, after, claimed, subresource)
            return self._written(kind, after, entries)
        metadata = {**sent, "name": name, "resourceVersion": version}
        for field in OWNED_BY_SERVER:
            metadata.pop(field, None)
            if field in before["metadata"]:
                metadata[field] = before["metadata"][field]
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        after = {**head, **document, **head, "metadata": metadata}
        if kind.status:
            after.pop("status", None)
        after = self._defaulted(kind, stored_form(kind, after))
        entries = self._fields.of_update(kind, stored, after, claimed, subresource or tracked_as)
        after = admitted(
            AdmissionAttributes(
                self.store, self._caller, self.warnings, kind, after, before, subresource
            )
        )
        written = self._written(kind, after, entries)
        restore_certificate(self.store, kind, written.document)
        return written

    def _written(self, kind: Kind, after: Document, entries: FieldEntries | None) -> StoredObject:
        """Stores an updated object, and removes it if its deletion waits for nothing more."""
        written, metadata = self._replace(kind, after, entries), after["metadata"]
        if "deletionTimestamp" not in metadata:
            return written
        namespace, name = names_of(after)
        if kind == NAMESPACES:
            return end_if_empty(self.store, name) or written
        waits = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        return written if waits else self._remove(kind, namespace, name)

    def patch(
        self, kind: Kind, namespace: str, name: str, patch: Any, how: str, subresource: str
    ) -> StoredObject:
        """Applies a patch to the stored object.

        The result carries the latest resourceVersion unless the patch names another.
        """
        if subresource == "scale":
            workload = served_form(kind, self.store.get(kind, namespace, name))
            scale = patched_document(kind, scale_of(kind, workload), patch, how)
            mistyped = unknown_and_mistyped("Scale", scale, self.store.catalog.types).mistyped
            if mistyped:
                problem = mistyped.partition(" as a Scale: ")[2]
                raise undecodable(scale, problem, patch if how == STRATEGIC else {})
            return self.rescale(kind, namespace, name, scale)
        stored = self.store.stored(kind, namespace, name)
        before = stored.whole if mentions_entries(patch) else stored.document
        after = patched_document(kind, served_form(kind, before), patch, how)
        try:
            of_kind(kind, after)
        except RefusedError as refused:
            message = str(refused)
            problem = message.partition(f" as a {kind.kind}: ")[2] or message
            raise undecodable(after, problem, patch if how == STRATEGIC else {}) from None
        sent = after.get("metadata")
        if isinstance(sent, dict):
            refuse_invalid(kind, before, uid_problems(sent, before["metadata"]))
        return self.update(
            kind, namespace, name, after, subresource, patch if how == STRATEGIC else {}
        )

    def apply(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        document: Document,
        subresource: str,
        *,
        force: bool = False,
    ) -> tuple[StoredObject, bool]:
        """Applies a document of the manager: creates the object or merges into it.

        With `force`, the manager takes the fields of others. Returns True beside the object if it
        was created.
        """
        from ..ownership.applies import applied  # most programs do not apply

        write, live = self._fields.write(kind, subresource), None
        if subresource or self.store.find(kind, namespace, name) is not None:
            live = self.store.stored(kind, namespace, name)
        elif self._caller is not None:
            self._caller.check_create(self.store, kind, namespace, name)
        after, entries = applied(write, live, document, force=force)
        check_applied_place(kind, namespace, name, after, is_new=live is None)
        if live is None:
            return self.create(kind, namespace, after, entries), True
        return self.update(kind, namespace, name, after, subresource, {}, entries), False

    def delete(self, kind: Kind, namespace: str, name: str, options: DeleteOptions) -> StoredObject:
        """Deletes an object, or marks it for deletion if something must happen first.

        A pod on a node gets its grace period, an object with finalizers waits for them, and a
        namespace is removed once it is empty.
        """
        before = self.store.stored(kind, namespace, name)
        prepare_conversion(kind, [before.document])
        self.admit("DELETE", kind, namespace, name, None, before.document)
        return self._delete(kind, before, options)

    def _delete(self, kind: Kind, before: StoredObject, options: DeleteOptions) -> StoredObject:
        """Deletes an object without asking the admission policies."""
        metadata = before.document["metadata"]
        namespace, name = names_of(before.document)
        check_deletion(kind, before.document, options)
        if kind == NAMESPACES:
            return self._end_namespace(before)
        if kind is DEFINITIONS:
            return end_definition(self.store, before, self._delete)
        have = metadata.get("finalizers") or []
        finalizers = finalizers_for(kind, have, options)
        grace = grace_seconds(before.document, options.grace_period_seconds) if kind == PODS else 0
        if not grace and not finalizers:
            gone = self._remove(kind, namespace, name)
            return deleted_now(gone, self.store.outside.now()) if kind == PODS else gone
        deadline = metadata.get("deletionGracePeriodSeconds")
        if deadline is not None and (options.grace_period_seconds is None or grace >= deadline):
            if finalizers == have:
                return before
            grace = deadline
        now = self.store.outside.now()
        doomed = {**metadata, "deletionTimestamp": metadata.get("deletionTimestamp") or now}
        doomed["deletionGracePeriodSeconds"] = grace
        if "deletionTimestamp" not in metadata and metadata.get("generation"):
            doomed["generation"] += 1
        if finalizers != have:
            doomed["finalizers"] = finalizers
        return self._replace(kind, {**before.document, "metadata": doomed})

    def delete_all(
        self, kind: Kind, namespace: str, matches: Matches | None, options: DeleteOptions
    ) -> Iterator[StoredObject]:
        """Deletes the objects that are selected now, one at each step. Yields each as it was
        before, also one that is gone by then.
        """
        selected = [
            s for s in self.store.list(kind, namespace) if matches is None or matches(s.document)
        ]
        prepare_conversion(kind, [stored.document for stored in selected])
        for stored in selected:
            key = names_of(stored.document)
            if self.store.find(kind, *key) is not None:
                self.delete(kind, *key, options)
            yield stored

    def bind(self, namespace: str, name: str, binding: Document) -> None:
        """Binds the pod to a node."""
        read, now = read_binding(name, binding), self.store.outside.now()
        after = bound_pod(self.store.get(PODS, namespace, name), read, now)
        self.admit("CREATE", PODS, namespace, name, binding, None, "binding")
        self.store.update(PODS, after)

    def evict(self, namespace: str, name: str, eviction: Document) -> None:
        """Deletes a pod if its disruption budget allows it. Raises RefusedError with 429 if not."""
        request = read_eviction(eviction)
        check_namespace(self.store, PODS, namespace, eviction.get("metadata") or {})
        if (request.metadata or NamedObject()).name != name:
            message = "name in URL does not match name in Eviction object"
            raise RefusedError(400, "BadRequest", message)
        pod = self.store.get(PODS, namespace, name)
        options = request.delete_options or DeleteOptions()
        self.admit("CREATE", PODS, namespace, name, eviction, None, "eviction")
        why = take_permission(self.store, pod)
        check_deletion(PODS, pod, options)
        user = f"{self._caller.user.name} asked for it; " if self._caller is not None else ""
        mark_disrupted(self.store, pod, user + why)
        options = msgspec.structs.replace(options, preconditions=None)
        self._delete(PODS, self.store.stored(PODS, namespace, name), options)

    def scale_of(self, kind: Kind, namespace: str, name: str) -> Document:
        """Returns the Scale of a workload."""
        workload = served_form(kind, self.store.get(kind, namespace, name))
        if kind.custom is not None:
            check_replicas(kind, workload)
        return scale_of(kind, workload)

    def rescale(self, kind: Kind, namespace: str, name: str, scale: Document) -> StoredObject:
        """Sets a workload's replicas from its Scale."""
        before = served_form(kind, self.store.get(kind, namespace, name))
        after, scale_before = with_replicas(kind, before, scale), scale_of(kind, before)
        scale_after = {**scale_before, "spec": scale_of(kind, after)["spec"]}
        self.admit("UPDATE", kind, namespace, name, scale_after, scale_before, "scale")
        writer = Api(self.store, manager=self._fields.manager)
        return writer.update(kind, namespace, name, after, "", tracked_as="scale")

    def _claimed(
        self,
        kind: Kind,
        document: Document,
        subresource: str,
        stored: StoredObject,
        before: Document,
        patch: Any,
    ) -> tuple[Document, Any]:
        """Returns the decoded document of an update without entries, and those that it has."""
        kept, sent = without_entries(document)
        if sent is not None and stored.entries is not None and stored.entries.are_sent(sent):
            document, sent = kept, None
        return without_entries(self._decoded(kind, document, subresource, before, patch))

    def _decoded(
        self,
        kind: Kind,
        document: Document,
        subresource: str = "",
        before: Document | None = None,
        patch: Any = None,
    ) -> Document:
        """Returns the document without nulls and without fields that its kind does not have. For a
        status, only that and metadata are decoded, and of them only what was not stored before.

        Raises RefusedError with 400 for a value of the wrong type and, if validation is Strict, for
        an unknown or duplicate field.
        """
        if kind.custom is not None:
            document, unknown = decoded_custom(kind, document, self._validation, self._duplicates)
            self.warnings += unknown
            return document
        news = replaced(document, before) if before and subresource == "status" else document
        types = self.store.catalog.types
        findings = unknown_and_mistyped(kind.type_name, news, types)
        unknown = [*findings.unknown, *self._duplicates]
        problem = findings.mistyped
        if unknown and not problem and self._validation == "Strict":
            problem = strict_message(kind.type_name, unknown)
        if problem:
            if patch is None:
                raise RefusedError(400, "BadRequest", problem)
            raise undecodable(document, problem.partition(f" as a {kind.kind}: ")[2], patch)
        if self._validation == "Warn":
            self.warnings += unknown
        if not findings.nulls and not findings.unknown:
            return document  # there is nothing to leave out
        fields = types[kind.type_name].fields or {}
        if subresource == "status" and "status" in fields:
            parts = {name: pruned(fields[name].shape, document.get(name)) for name in WITH_STATUS}
            return {**document, **parts}
        kept: Document = pruned(types[kind.type_name], document)
        return kept

    def _defaulted(self, kind: Kind, document: Document) -> Document:
        if kind.custom is not None:
            return document
        kind = kind.stored_as or kind
        if kind == NODES and "status" in document:
            status = with_whole_conditions(shape_of(self.store, kind), document["status"])
            document = {**document, "status": status}
        return timed(kind, defaulted(kind, document), self.store.outside.now)

    def _replace(
        self, kind: Kind, document: Document, entries: FieldEntries | EllipsisType | None = ...
    ) -> StoredObject:
        written = self.store.update(kind, in_stored_version(kind, document), entries)
        if kind is DEFINITIONS:
            settle_names(self.store, written.document)
        return settle_quotas(self.store, kind, written)

    def _remove(self, kind: Kind, namespace: str, name: str) -> StoredObject:
        gone = self.store.delete(kind, namespace, name)
        settle_quotas(self.store, kind, gone, gone=True)
        if kind is DEFINITIONS:
            settle_names(self.store, gone.document)
        elif kind.custom is not None:
            end_if_unused(self.store, kind.custom.definition)
        if namespace:
            end_if_empty(self.store, namespace)
            if is_of_every_namespace(kind, name):
                self._furnish(namespace)
        return gone

    def _end_namespace(self, namespace: StoredObject) -> StoredObject:
        namespace = terminating(self.store, namespace)
        return end_if_empty(self.store, namespace.document["metadata"]["name"]) or namespace

    def end_pods(self, namespace: str) -> Generator[None, None, None]:
        """Deletes the pods of a namespace, one at each step. They may need the rest, so they go
        first.
        """
        return self._end_all(PODS, namespace)

    def end_contents(self, namespace: str) -> Generator[None, None, None]:
        """Deletes the contents of a namespace, one at each step, and the namespace if nothing is
        left in it.
        """
        for kind in self.store.catalog.kinds:
            if kind.namespaced:
                yield from self._end_all(kind, namespace)
        end_if_empty(self.store, namespace)

    def _end_all(self, kind: Kind, namespace: str) -> Generator[None, None, None]:
        for stored in list(self.store.list(kind, namespace)):
            there = self.store.lookup(kind, *names_of(stored.document))
            if there is not None:
                self._delete(kind, there, DeleteOptions(propagation_policy="Background"))
            yield
