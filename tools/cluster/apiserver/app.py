"""The embedded API server over HTTP: paths, bodies and content negotiation."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec

from ...kubernetes.api import resource_metrics
from ...kubernetes.api.access.authentication import sender
from ...kubernetes.api.access.impersonation import acting_user
from ...kubernetes.api.access.reviews import review
from ...kubernetes.api.access.rights import check_right, may_all
from ...kubernetes.api.access.tokens import issued_token
from ...kubernetes.api.access.users import ADMINISTRATOR, Requester
from ...kubernetes.api.policies.webhook_decisions import CallsNeededError, WebhookAnswers
from ...kubernetes.api.requests.accepted_forms import accepted_form, check_stream
from ...kubernetes.api.requests.component_statuses import component_answer
from ...kubernetes.api.requests.field_managers import SERVER, is_forced, manager_of_request
from ...kubernetes.api.requests.flow_limits import FlowLimits
from ...kubernetes.api.requests.legacy_watches import without_watch_prefix
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
from ...kubernetes.api.requests.origins import Guard
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
from ...kubernetes.api.requests.request_targets import (
    RequestTarget,
    act_of,
    target_of,
    unconverted_target_of,
)
from ...kubernetes.api.requests.selectors import Matches, matches_of
from ...kubernetes.api.requests.time_limits import check_timeout
from ...kubernetes.api.store import Store
from ...kubernetes.api.types.api_documents import Document, RefusedError, StoredObject
from ...kubernetes.api.types.conversion import prepare_conversion, served_form
from ...kubernetes.api.types.resources import (
    BINDINGS,
    COMPONENT_STATUSES,
    DEPRECATED,
    METRICS,
    REVIEWS,
    STREAMS,
    UNSERVED,
    UNSTORED,
    Kind,
)
from ...kubernetes.api.types.webhook_conversion import ConversionsNeededError
from ...kubernetes.api.writes.caller import Caller
from ...kubernetes.api.writes.deletion import deletion_answer
from ...kubernetes.api.writes.first_configuration import SELF_WRITTEN, SETTLED, write_configuration
from ...kubernetes.api.writes.pod_binding import bound_name, check_bound_name
from ...kubernetes.api.writes.registry import Api
from ...kubernetes.kubelet.scripts.script_rules import Scripts
from .answer_forms import (
    Answer,
    in_accepted_form,
    in_yaml,
    refused_response,
    with_warnings,
)
from .http import Follow, Gate, Response, Wire, listen
from .namespace_controller import end_namespaces
from .server_pages import missing_page, server_page
from .this_machine import this_machine
from .watch import Watch
from .watch_lines import WatchLines
from .webhook_answers import WebhookClient

LONGEST_PATH = 1024  # room for two names of 253 bytes and the rest of the path
SUCCESS: Document = {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"}


class Server:
    """An API server with one store.

    `allowed_hosts` are names of the server in addition to the local ones, such as localhost. With
    `kubelets`, it serves metrics. `limits` are those of requests, if there are any. `scripts` are
    those of hollow containers.
    """

    def __init__(
        self,
        store: Store,
        allowed_hosts: Collection[str] = (),
        kubelets: resource_metrics.Kubelets | None = None,
        limits: FlowLimits | None = None,
        scripts: Scripts | None = None,
        webhooks: WebhookClient | None = None,
    ) -> None:
        self._webhooks = webhooks
        self._no_answers = None if webhooks is None else WebhookAnswers()
        self._scripts = Scripts() if scripts is None else scripts
        self._store = store
        self._kubelets = kubelets
        self._measured_kinds = () if kubelets is None else METRICS
        self._guard = Guard(allowed_hosts)
        self._lines = WatchLines(store)
        self._limits = limits

    def answer(
        self, request: HttpRequest, answers: WebhookAnswers | None = None
    ) -> Response | Follow:
        try:
            self._guard.check(request.headers)
            if "/watch/" in request.path:
                request = without_watch_prefix(request)
            answer = self._answer(request, answers or self._no_answers)
            return in_yaml(request, answer) if isinstance(answer, Response) else answer
        except CallsNeededError as needed:
            assert self._webhooks is not None
            return self._webhooks.later(partial(self.answer, request), answers, needed.calls)
        except ConversionsNeededError as conversions:
            assert self._webhooks is not None
            known = answers or WebhookAnswers()
            return self._webhooks.converted(partial(self.answer, request), known, conversions)
        except RefusedError as refused:
            return in_yaml(request, refused_response(refused))
        except RecursionError:
            return refused_response(
                RefusedError(400, "BadRequest", "the body is nested too deeply")
            )
        except Exception as fault:  # noqa: BLE001  # as Kubernetes goes on after a panic
            told = {"message": f"{request.method} {request.path} failed", "exception": fault}
            asyncio.get_running_loop().call_exception_handler(told)
            why = f"Internal error occurred: {request.method} {request.path} made the server fail"
            return refused_response(RefusedError(500, "InternalError", why))

    def carry_out(self, request: HttpRequest, media_type: str) -> Document:
        """Answers a request of the administrator with a document, which must not be changed.

        `media_type` is the media type of the body. Raises RefusedError.
        """
        target = unconverted_target_of(request.path, self._store.catalog)
        if request.method == "GET":
            answer = self._read(request, target)
        else:
            caller = Caller(ADMINISTRATOR, "patch" if request.method == "PATCH" else "update")
            document = msgspec.json.decode(request.body) if request.body else {}
            api = Api(self._store, caller=caller, manager=request.headers.get("user-agent"))
            answer, _ = self._write(api, request, target, document, media_type)
        if isinstance(answer, StoredObject):
            return served_form(target.kind, answer.document)
        if isinstance(answer, dict):
            return answer
        items = [served_form(target.kind, stored.document) for stored in answer.items]
        return {"metadata": answer.metadata(), "items": items}

    def _answer(self, request: HttpRequest, answers: WebhookAnswers | None) -> Response | Follow:
        path = request.path
        if len(path) > LONGEST_PATH:
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        user = self._user(request)
        check_timeout(request.query)
        if self._limits is not None:
            self._limits.check(user.name, request, asyncio.get_running_loop().time())
        if not may_all(self._store, user):
            check_right(self._store, user, act_of(request))
        page = server_page(self._store, request, self._measured_kinds)
        if page is not None:
            return page
        catalog = self._store.catalog
        try:
            target = target_of(path, catalog)
        except RefusedError:
            missing = missing_page(path, catalog, self._measured_kinds)
            if missing is None:
                raise
            return missing
        accept, kind = request.headers.get("accept", ""), target.kind
        is_list = request.method == "GET" and not target.name
        accepted_form(accept, tables=kind not in REVIEWS, is_list=is_list)
        if kind in SELF_WRITTEN:
            write_configuration(self._store, kind)
        if kind in SETTLED:
            self._settle(kind)
        if target.subresource in STREAMS:
            return self._stream_answer(request, target, user)
        if is_list and is_on(request.query, "watch") and kind not in UNSTORED:
            check_stream(accept)
            watch = Watch(self._store, self._lines, kind, target.namespace, request, self._webhooks)
            return watch.run
        try:
            answer, code, warnings = self._answer_about(request, target, user, answers)
        except RefusedError as refused:
            return with_warnings(refused_response(refused), _deprecation(kind))
        if kind in SETTLED and request.method != "GET":
            self._settle(kind)
        if kind.custom is not None and isinstance(answer, ListPage):
            prepare_conversion(kind, [stored.document for stored in answer.items])
        return with_warnings(
            in_accepted_form(self._store, request, kind, answer, code),
            _deprecation(kind) + warnings,
        )

    def _settle(self, kind: Kind) -> None:
        from ...kubernetes.api.writes.settled_objects import settle  # few ask for these kinds

        settle(self._store, kind)

    def _answer_about(
        self,
        request: HttpRequest,
        target: RequestTarget,
        user: Requester,
        answers: WebhookAnswers | None,
    ) -> tuple[Answer, int, list[str]]:
        """Returns the answer about what a path names, its code and the warnings."""
        kind = target.kind
        if kind is COMPONENT_STATUSES:
            return component_answer(request, target, self._store.revision), 200, []
        if kind in METRICS:
            return self._metrics_answer(request, target), 200, []
        if kind is BINDINGS and (request.method != "POST" or target.name):
            raise self._not_allowed(request, target)
        if kind in REVIEWS:
            return self._review_answer(request, target, user), 201, []
        if request.method != "GET":
            return self._write_answer(request, target, user, answers)
        return self._read(request, target), 200, []

    def _stream_answer(
        self, request: HttpRequest, target: RequestTarget, user: Requester
    ) -> Response | Follow:
        """Answers a request for a stream into a container, such as its log."""
        from .streams.pod_streams import PodStreams  # few servers need it

        return PodStreams(self._store, self._scripts).answer(request, target, user)

    def _write_answer(
        self,
        request: HttpRequest,
        target: RequestTarget,
        user: Requester,
        answers: WebhookAnswers | None,
    ) -> tuple[Answer, int, list[str]]:
        """Performs a write, or a dry run of it. Returns the answer, its code and the warnings."""
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
        store = self._store.fork() if dry else self._store
        api = Api(store, validation, duplicates, caller, manager)
        answer, code = self._write(api, request, target, document, media_type)
        if dry and isinstance(answer, StoredObject):
            answer = self._dry_run_answer(target.kind, answer)
        return answer, code, api.warnings

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
                self._store.stored(target.kind, target.namespace, target.name)
            raise

    def _dry_run_answer(self, kind: Kind, tried: StoredObject) -> StoredObject:
        """Returns the object of a dry run, with the version of the stored object, if there is
        one.
        """
        metadata = dict(tried.document["metadata"])
        stored = self._store.find(kind, metadata.get("namespace", ""), metadata["name"])
        metadata.pop("resourceVersion")
        if stored is not None:
            metadata["resourceVersion"] = stored["metadata"]["resourceVersion"]
        shown = {**tried.document, "metadata": metadata}
        return StoredObject(shown, tried.revision, entries=tried.entries)

    def _user(self, request: HttpRequest) -> Requester:
        """Returns the user of a request. Raises RefusedError with 400, 401 or 403."""
        user = sender(self._store, request.headers, request.certificate)
        return acting_user(self._store, user, request.headers)

    def _review_answer(
        self, request: HttpRequest, target: RequestTarget, user: Requester
    ) -> Document:
        """Answers a review, such as a SubjectAccessReview, which is not stored."""
        if request.method != "POST" or target.name:
            raise self._not_allowed(request, target)
        kind = target.kind
        document = of_kind(kind, read_body(request.body, media_type_of(request)))
        answer = review(self._store, user, kind.kind, target.namespace, document)
        from ...kubernetes.api.writes.field_tracking import reviewed_metadata

        manager = manager_of_request("POST", request.query, request.headers, "")
        metadata = reviewed_metadata(self._store, kind, document, manager)
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
                kubelets, self._store, kind, target.namespace, target.name
            )
        measured = resource_metrics.metrics_in(
            kubelets, self._store, kind, target.namespace, _matches(request, kind)
        )
        revision = self._store.revision
        return page_of(measured, kind, target.namespace, request.query, revision)

    def _read(self, request: HttpRequest, target: RequestTarget) -> Answer:
        if not target.name:
            matches = _matches(request, target.kind)
            return list_page(self._store, target.kind, target.namespace, request.query, matches)
        if revision_in(request.query) > self._store.revision:
            raise too_large(revision_in(request.query), self._store.revision)
        match target.subresource:
            case "" | "status" | "resize" | "approval" | "ephemeralcontainers":
                return self._store.stored(target.kind, target.namespace, target.name)
            case "scale":
                return Api(self._store).scale_of(target.kind, target.namespace, target.name)
            case _:
                raise self._not_allowed(request, target)

    def _write(
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
                account = self._store.get(kind, namespace, name)
                issued = issued_token(
                    self._store, account, as_object(document, kind.kind, request.body)
                )
                api.admit("CREATE", kind, namespace, name, issued, None, subresource)
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
            case "DELETE", "":
                options = delete_options(as_object(document, "", request.body), request.query)
                if name:
                    deleted = api.delete(kind, namespace, name, options)
                    return deletion_answer(api.store, kind, deleted), 200
                if kind.kind == "Namespace":
                    raise self._not_allowed(request, target)
                number_in(request.query, "limit")
                gone = api.delete_all(kind, namespace, _matches(request, kind), options)
                return ListPage(gone, api.store.revision), 200
            case _:
                raise self._not_allowed(request, target)

    def _not_allowed(self, request: HttpRequest, target: RequestTarget) -> RefusedError:
        """Returns the refusal with 405; for a subresource that needs running containers, it says
        so.

        Raises RefusedError with 404 if the object of such a subresource does not exist.
        """
        if target.subresource in UNSERVED:
            self._store.stored(target.kind, target.namespace, target.name)
            why = (
                f"{target.kind.singular} {target.name} is hollow: no container runs in it, "
                f"so there is no {target.subresource}"
            )
            return RefusedError(405, "MethodNotAllowed", why)
        message = "the server does not allow this method on the requested resource"
        return RefusedError(405, "MethodNotAllowed", message)


def _matches(request: HttpRequest, kind: Kind) -> Matches | None:
    return matches_of(
        kind, request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
    )


def _deprecation(kind: Kind) -> list[str]:
    if kind.custom is not None:
        return [kind.custom.deprecation] if kind.custom.deprecation else []
    return [DEPRECATED[kind]] if kind in DEPRECATED else []


@asynccontextmanager
async def serve(
    port: int = 0,
    host: str = "127.0.0.1",
    store: Store | None = None,
    allowed_hosts: Collection[str] = (),
    kubelets: resource_metrics.Kubelets | None = None,
    tls: ssl.SSLContext | None = None,
    gate: Gate | None = None,
    limits: FlowLimits | None = None,
    scripts: Scripts | None = None,
    webhooks: bool = False,
    faults: Wire | None = None,
) -> AsyncIterator[str]:
    """Runs an API server during the block, and yields its URL. Without a store it starts empty.

    It serves metrics if there are kubelets to ask, and HTTPS with `tls`. No answer passes the gate
    before what it tells of is on the disk. With `webhooks`, it asks those that are configured about
    writes and for conversions. `scripts` say what containers say and do whose pods have
    no annotation about it. `faults` lie between it and its clients. Raises OSError.
    """
    store = Store(this_machine()) if store is None else store
    Api(store, manager=SERVER).seed()
    if webhooks:
        store.ask_conversion_webhooks()
    client = _webhook_client(store) if webhooks else None
    server = Server(store, (host, *allowed_hosts), kubelets, limits, scripts, client)
    answer = server.answer if faults is None else faults.around(server.answer)
    connections = None if faults is None else faults.connections
    async with listen(answer, port, host, tls, gate, connections) as url:
        ending = asyncio.create_task(end_namespaces(store))
        try:
            yield url
        finally:
            ending.cancel()
            if client is not None:
                await client.close()


def _webhook_client(store: Store) -> WebhookClient:
    from .webhook_client import HttpsWebhooks  # few servers ask webhooks

    return HttpsWebhooks(store)
