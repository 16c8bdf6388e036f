"""Performs requests on a store: reads and writes of objects, reviews, metrics.

What comes before is in app.py: who sends a request, may he do that, and what is it about. So is the
form of the answer.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

import msgspec

from ...kubernetes.api import resource_metrics
from ...kubernetes.api.access.tokens import issued_token
from ...kubernetes.api.access.users import Requester
from ...kubernetes.api.policies.webhook_decisions import WebhookAnswers
from ...kubernetes.api.requests.field_managers import is_forced, manager_of_request
from ...kubernetes.api.requests.list_options import is_on, too_large
from ...kubernetes.api.requests.list_pages import (
    ListPage,
    list_page,
    number_in,
    page_of,
    revision_in,
)
from ...kubernetes.api.requests.media_types import APPLY
from ...kubernetes.api.requests.option_problems import field_validation
from ...kubernetes.api.requests.request import HttpRequest
from ...kubernetes.api.requests.request_bodies import delete_options, is_dry_run
from ...kubernetes.api.requests.request_content import (
    applied_object,
    as_object,
    may_repeat_fields,
    media_type_of,
    of_kind,
    read_body,
    repeated_fields,
)
from ...kubernetes.api.requests.request_targets import RequestTarget
from ...kubernetes.api.requests.selectors import Matches, matches_of
from ...kubernetes.api.store import Store
from ...kubernetes.api.types.api_documents import Document, RefusedError, StoredObject
from ...kubernetes.api.types.resources import (
    BINDINGS,
    COMPONENT_STATUSES,
    METRICS,
    REVIEWS,
    UNSERVED,
    Kind,
)
from ...kubernetes.api.writes.caller import Caller
from ...kubernetes.api.writes.deletion import deletion_answer
from ...kubernetes.api.writes.pod_binding import bound_name, check_bound_name
from ...kubernetes.api.writes.registry import Api
from .answer_forms import Answer

SUCCESS: Document = {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"}


class Performed(msgspec.Struct, frozen=True):
    """What a request led to: its answer, the code of that, and the warnings."""

    answer: Answer
    code: int = 200
    warnings: Sequence[str] = ()


class Handlers:
    """What performs requests on one store. Without kubelets there are no metrics."""

    def __init__(self, store: Store, kubelets: resource_metrics.Kubelets | None = None) -> None:
        self.store = store
        self._kubelets = kubelets

    def perform(
        self,
        request: HttpRequest,
        target: RequestTarget,
        user: Requester,
        answers: WebhookAnswers | None,
    ) -> Performed:
        """Performs a request. Raises RefusedError, CallsNeededError or ConversionsNeededError."""
        kind = target.kind
        if kind is COMPONENT_STATUSES:
            from ...kubernetes.api.requests.component_statuses import component_answer  # few ask

            return Performed(component_answer(request, target, self.store.revision))
        if kind in METRICS:
            return Performed(self._metrics_answer(request, target))
        if kind is BINDINGS and (request.method != "POST" or target.name):
            raise self._not_allowed(request, target)
        if kind in REVIEWS:
            return Performed(self._review_answer(request, target, user), 201)
        if request.method == "GET":
            return Performed(self.read(request, target))
        api, document, media_type = self._prepared(request, target, user, answers)
        answer, code = self.write(api, request, target, document, media_type)
        if api.store is not self.store and isinstance(answer, StoredObject):
            answer = self._dry_run_answer(target.kind, answer)
        return Performed(answer, code, api.warnings)

    def delete_each(
        self,
        request: HttpRequest,
        target: RequestTarget,
        user: Requester,
        answers: WebhookAnswers | None,
    ) -> Generator[None, None, Performed]:
        """Deletes a collection as `perform` does, and yields after each object."""
        api, document, _ = self._prepared(request, target, user, answers)
        gone = []
        for stored in self._deletions(api, request, target, document):
            gone.append(stored)
            yield
        return Performed(ListPage(gone, api.store.revision), warnings=api.warnings)

    def _prepared(
        self,
        request: HttpRequest,
        target: RequestTarget,
        user: Requester,
        answers: WebhookAnswers | None,
    ) -> tuple[Api, Any, str]:
        """Returns what performs a write, the document in the body, and its media type. A dry run
        is performed on a fork of the store.
        """
        raw = request.body
        media_type = media_type_of(request)
        document = self._document(request, target, media_type)
        options = document if request.method == "DELETE" else None
        if target.subresource == "eviction" and isinstance(document, dict):
            options = document.get("deleteOptions")
        dry = is_dry_run(request.method, request.query, options)
        validation = field_validation(request.method, request.query)
        duplicates: Sequence[str] = ()
        if validation != "Ignore" and may_repeat_fields(raw, document):
            duplicates = repeated_fields(raw, media_type)
        verb = "patch" if request.method == "PATCH" else "update"
        caller = Caller(user, verb, dry, answers)
        manager = manager_of_request(request.method, request.query, request.headers, media_type)
        store = self.store.fork() if dry else self.store
        return Api(store, validation, duplicates, caller, manager), document, media_type

    def _deletions(
        self, api: Api, request: HttpRequest, target: RequestTarget, document: Any
    ) -> Iterator[StoredObject]:
        """Deletes the objects of a collection one by one. Yields each as it was before."""
        kind = target.kind
        options = delete_options(as_object(document, "", request.body), request.query)
        if kind.kind == "Namespace" or (kind.namespaced and not target.namespace):
            raise self._not_allowed(request, target)
        number_in(request.query, "limit")
        return api.delete_all(kind, target.namespace, matches_in(request, kind), options)

    def _document(self, request: HttpRequest, target: RequestTarget, media_type: str) -> Any:
        """Returns the document in the body. Raises RefusedError: 404 for a patch of an object that
        does not exist, 400 for a body that cannot be read.
        """
        raw = request.body
        if not raw and request.method != "PATCH":
            return {} if request.method == "DELETE" else None
        try:
            expected = "" if request.method == "DELETE" else target.kind.kind
            return read_body(raw, media_type, expected)
        except RefusedError:
            if request.method == "PATCH" and media_type != APPLY and target.name:
                self.store.stored(target.kind, target.namespace, target.name)
            raise

    def _dry_run_answer(self, kind: Kind, tried: StoredObject) -> StoredObject:
        """Returns the object of a dry run, with the version of the stored object, if there is
        one.
        """
        metadata = dict(tried.document["metadata"])
        stored = self.store.find(kind, metadata.get("namespace", ""), metadata["name"])
        metadata.pop("resourceVersion")
        if stored is not None:
            metadata["resourceVersion"] = stored["metadata"]["resourceVersion"]
        shown = {**tried.document, "metadata": metadata}
        return StoredObject(shown, tried.revision, entries=tried.entries)

    def _review_answer(
        self, request: HttpRequest, target: RequestTarget, user: Requester
    ) -> Document:
        """Answers a review, such as a SubjectAccessReview, which is not stored."""
        if request.method != "POST" or target.name:
            raise self._not_allowed(request, target)
        from ...kubernetes.api.access.reviews import review  # few servers are asked

        kind = target.kind
        document = of_kind(kind, read_body(request.body, media_type_of(request)))
        answer = review(self.store, user, kind.kind, target.namespace, document)
        from ...kubernetes.api.writes.field_tracking import reviewed_metadata

        manager = manager_of_request("POST", request.query, request.headers, "")
        metadata = reviewed_metadata(self.store, kind, document, manager)
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        return {**head, **answer, "metadata": metadata}

    def _metrics_answer(
        self, request: HttpRequest, target: RequestTarget
    ) -> StoredObject | ListPage:
        """Answers a request for the metrics of pods or nodes. Raises RefusedError with 404 without
        kubelets.
        """
        kind, kubelets = target.kind, self._kubelets
        if kubelets is None:
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        if request.method != "GET" or is_on(request.query, "watch"):
            raise self._not_allowed(request, target)
        if target.name:
            return resource_metrics.metrics_of(
                kubelets, self.store, kind, target.namespace, target.name
            )
        measured = resource_metrics.metrics_in(
            kubelets, self.store, kind, target.namespace, matches_in(request, kind)
        )
        revision = self.store.revision
        return page_of(measured, kind, target.namespace, request.query, revision)

    def read(self, request: HttpRequest, target: RequestTarget) -> Answer:
        if not target.name:
            matches = matches_in(request, target.kind)
            return list_page(self.store, target.kind, target.namespace, request.query, matches)
        if revision_in(request.query) > self.store.revision:
            raise too_large(revision_in(request.query), self.store.revision)
        match target.subresource:
            case "" | "status" | "resize" | "approval" | "ephemeralcontainers":
                return self.store.stored(target.kind, target.namespace, target.name)
            case "scale":
                return Api(self.store).scale_of(target.kind, target.namespace, target.name)
            case _:
                raise self._not_allowed(request, target)

    def write(
        self, api: Api, request: HttpRequest, target: RequestTarget, document: Any, media_type: str
    ) -> tuple[Answer, int]:
        """Performs a request that writes. Returns the answer and its HTTP code.

        `media_type` is the media type of the body.
        """
        kind, namespace, name, subresource = (
            target.kind,
            target.namespace,
            target.name,
            target.subresource,
        )
        match request.method, subresource:
            case "POST", "" if kind is BINDINGS and namespace:
                binding = of_kind(kind, document, request.body)
                api.bind(namespace, bound_name(binding), binding)
                return {**SUCCESS, "code": 201}, 201
            case "POST", "" if not name and bool(namespace) == kind.namespaced:
                return api.create(kind, namespace, of_kind(kind, document, request.body)), 201
            case "POST", "binding":
                binding = as_object(document, kind.kind, request.body)
                check_bound_name(name, binding)
                api.bind(namespace, name, binding)
                return {**SUCCESS, "code": 201}, 201
            case "POST", "token":
                account = self.store.get(kind, namespace, name)
                issued = issued_token(
                    self.store, account, as_object(document, kind.kind, request.body)
                )
                asked = {field: value for field, value in issued.items() if field != "status"}
                api.admit("CREATE", kind, namespace, name, asked, None, subresource)
                return issued, 201
            case "POST", "eviction":
                api.evict(namespace, name, as_object(document, kind.kind, request.body))
                return {**SUCCESS, "code": 201}, 201
            case "PUT", "scale":
                api.rescale(kind, namespace, name, as_object(document, kind.kind, request.body))
                return api.scale_of(kind, namespace, name), 200
            case (
                "PUT",
                "" | "finalize" | "status" | "resize" | "approval" | "ephemeralcontainers",
            ) if name:
                sent = of_kind(kind, document, request.body)
                stored, created = api.put(kind, namespace, name, sent, subresource)
                return stored, 201 if created else 200
            case (
                "PATCH",
                "" | "scale" | "status" | "resize" | "approval" | "ephemeralcontainers",
            ) if name:
                if media_type == APPLY:
                    document = applied_object(document)
                    force = is_forced(request.query)
                    stored, created = api.apply(
                        kind, namespace, name, document, subresource, force=force
                    )
                    return stored, 201 if created else 200
                patched = api.patch(kind, namespace, name, document, media_type, subresource)
                return api.scale_of(
                    kind, namespace, name
                ) if subresource == "scale" else patched, 200
            case "DELETE", "" if name:
                options = delete_options(as_object(document, "", request.body), request.query)
                deleted = api.delete(kind, namespace, name, options)
                return deletion_answer(api.store, kind, deleted), 200
            case "DELETE", "":
                gone = list(self._deletions(api, request, target, document))
                return ListPage(gone, api.store.revision), 200
            case _:
                raise self._not_allowed(request, target)

    def _not_allowed(self, request: HttpRequest, target: RequestTarget) -> RefusedError:
        """Returns the refusal with 405; for a subresource that needs running containers, it says
        so.

        Raises RefusedError with 404 if the object of such a subresource does not exist.
        """
        if target.subresource in UNSERVED:
            self.store.stored(target.kind, target.namespace, target.name)
            why = (
                f"{target.kind.singular} {target.name} is hollow: no container runs in it, "
                f"so there is no {target.subresource}"
            )
            return RefusedError(405, "MethodNotAllowed", why)
        message = "the server does not allow this method on the requested resource"
        return RefusedError(405, "MethodNotAllowed", message)


def matches_in(request: HttpRequest, kind: Kind) -> Matches | None:
    """Returns the selectors of a request; None if it selects all."""
    return matches_of(
        kind, request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
    )
