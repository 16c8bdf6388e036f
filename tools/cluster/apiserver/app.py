"""The embedded API server over HTTP: who asks, what about, and in which form it is answered.

Requests are performed by handlers.py, those that take long beside the loop (long_requests.py).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial

import msgspec

from ...kubernetes.api import resource_metrics
from ...kubernetes.api.access.authentication import sender
from ...kubernetes.api.access.impersonation import acting_user
from ...kubernetes.api.access.rights import check_right, may_all
from ...kubernetes.api.access.users import ADMINISTRATOR, Requester
from ...kubernetes.api.policies.webhook_decisions import CallsNeededError, WebhookAnswers
from ...kubernetes.api.requests.accepted_forms import accepted_form, stream_type
from ...kubernetes.api.requests.field_managers import SERVER
from ...kubernetes.api.requests.flow_limits import FlowLimits
from ...kubernetes.api.requests.legacy_watches import without_watch_prefix
from ...kubernetes.api.requests.list_options import is_on
from ...kubernetes.api.requests.list_pages import ListPage
from ...kubernetes.api.requests.media_types import JSON
from ...kubernetes.api.requests.origins import Guard
from ...kubernetes.api.requests.request import HttpRequest
from ...kubernetes.api.requests.request_targets import (
    RequestTarget,
    act_of,
    target_of,
    unconverted_target_of,
)
from ...kubernetes.api.requests.time_limits import check_timeout
from ...kubernetes.api.store import Store
from ...kubernetes.api.types.api_documents import Document, RefusedError, StoredObject
from ...kubernetes.api.types.conversion import prepare_conversion, served_form
from ...kubernetes.api.types.resources import (
    DEPRECATED,
    METRICS,
    REVIEWS,
    STREAMS,
    UNSTORED,
    Kind,
)
from ...kubernetes.api.types.webhook_conversion import ConversionsNeededError
from ...kubernetes.api.writes.caller import Caller
from ...kubernetes.api.writes.first_configuration import SELF_WRITTEN, SETTLED, write_configuration
from ...kubernetes.api.writes.registry import Api
from ...kubernetes.kubelet.scripts.script_rules import Scripts
from .answer_forms import (
    in_accepted_form,
    in_yaml,
    protobuf_shape,
    refused_response,
    with_warnings,
)
from .handlers import Handlers, Performed
from .http import Follow, Gate, Later, Response, Streamed, Wire, in_one, listen
from .long_requests import (
    MOST_TRIES,
    Aside,
    Trial,
    in_pieces,
    is_long_answer,
    is_long_deletion,
    is_long_write,
)
from .namespace_controller import end_namespaces
from .server_pages import missing_page, server_page
from .this_machine import this_machine
from .watch import Watch
from .watch_lines import WatchLines
from .webhook_answers import WebhookClient

LONGEST_PATH = 1024  # room for two names of 253 bytes and the rest of the path


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
        self._handlers = Handlers(store, kubelets)
        self._kubelets = kubelets
        self._aside = Aside()
        self._measured_kinds = () if kubelets is None else METRICS
        self._guard = Guard(allowed_hosts)
        self._lines = WatchLines(store)
        self._limits = limits

    def answer(
        self, request: HttpRequest, answers: WebhookAnswers | None = None
    ) -> Response | Follow:
        return self._told(request, answers, partial(self._checked, request, answers))

    def _told(
        self,
        request: HttpRequest,
        answers: WebhookAnswers | None,
        find: Callable[[], Response | Follow],
    ) -> Response | Follow:
        """Returns the answer that `find` finds, or what is said in its place if that raises."""
        try:
            return find()
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

    def _checked(self, request: HttpRequest, answers: WebhookAnswers | None) -> Response | Follow:
        self._guard.check(request.headers)
        if "/watch/" in request.path:
            request = without_watch_prefix(request)
        answer = self._answer(request, answers or self._no_answers)
        return in_yaml(request, answer) if isinstance(answer, Response) else answer

    def carry_out(self, request: HttpRequest, media_type: str) -> Document:
        """Answers a request of the administrator with a document, which must not be changed.

        `media_type` is the media type of the body. Raises RefusedError.
        """
        target = unconverted_target_of(request.path, self._store.catalog)
        if target.kind in METRICS:
            answer = self._handlers.perform(request, target, ADMINISTRATOR, None).answer
        elif request.method == "GET":
            answer = self._handlers.read(request, target)
        else:
            caller = Caller(ADMINISTRATOR, "patch" if request.method == "PATCH" else "update")
            document = msgspec.json.decode(request.body) if request.body else {}
            api = Api(self._store, caller=caller, manager=request.headers.get("user-agent"))
            answer, _ = self._handlers.write(api, request, target, document, media_type)
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
        across_all = kind.namespaced and not target.namespace
        if across_all and kind.custom is not None and request.method != "GET":
            # as apiextensions-apiserver, whose handler passes it on; built-in kinds answer 405
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        is_list = request.method == "GET" and not target.name
        accepted_form(accept, tables=kind not in REVIEWS, is_list=is_list)
        if kind in SELF_WRITTEN:
            write_configuration(self._store, kind)
        if kind in SETTLED:
            self._settle(kind)
        if target.subresource in STREAMS:
            return self._stream_answer(request, target, user)
        if is_list and is_on(request.query, "watch") and kind not in UNSTORED:
            media_type = stream_type(accept)
            if media_type != JSON and not accepted_form(accept, streams=True).as_kind:
                protobuf_shape(self._store, kind)
            watch = Watch(self._store, self._lines, kind, target.namespace, request, self._webhooks)
            return watch.run if media_type == JSON else Streamed(watch.run, media_type)
        if is_long_deletion(self._store, request, target):
            return Later(partial(self._delete_in_pieces, request, target, user, answers))
        if is_long_write(self._store, request, target):
            return Later(partial(self._write_aside, request, user, answers))
        return self._answer_at_once(request, user, answers)

    def _answer_of(
        self,
        request: HttpRequest,
        kind: Kind,
        answers: WebhookAnswers | None,
        perform: Callable[[], Performed],
    ) -> Response | Later:
        """Performs a request, and returns its answer."""
        try:
            performed = perform()
        except RefusedError as refused:
            return with_warnings(refused_response(refused), _deprecation(kind))
        answer = performed.answer
        if kind in SETTLED and request.method != "GET":
            self._settle(kind)
        if kind.custom is not None and isinstance(answer, ListPage):
            prepare_conversion(kind, [stored.document for stored in answer.items])
        form = partial(_formed, self._store, request, kind, performed)
        if is_long_answer(request, answer):
            return Later(partial(self._form_aside, request, answers, form))
        return form()

    async def _form_aside(
        self, request: HttpRequest, answers: WebhookAnswers | None, form: Callable[[], Response]
    ) -> Response:
        return await in_one(self._told(request, answers, await self._aside.run(form)))

    async def _write_aside(
        self, request: HttpRequest, user: Requester, answers: WebhookAnswers | None
    ) -> Response:
        """Performs a long write, beside the loop if others leave it the time."""
        find = partial(self._answer_at_once, request, user, answers)
        for _ in range(MOST_TRIES):
            trial = Trial(self._store)
            target = target_of(request.path, trial.store.catalog)
            tried = Handlers(trial.store, self._kubelets)
            done = await self._aside.run(partial(tried.perform, request, target, user, answers))
            if trial.is_current():
                keep = partial(trial.keep, done)
                find = partial(self._answer_of, request, target.kind, answers, keep)
                break
            if not trial.is_served():
                break
        return await in_one(self._told(request, answers, find))

    def _answer_at_once(
        self, request: HttpRequest, user: Requester, answers: WebhookAnswers | None
    ) -> Response | Later:
        target = target_of(request.path, self._store.catalog)
        perform = partial(self._handlers.perform, request, target, user, answers)
        return self._answer_of(request, target.kind, answers, perform)

    async def _delete_in_pieces(
        self,
        request: HttpRequest,
        target: RequestTarget,
        user: Requester,
        answers: WebhookAnswers | None,
    ) -> Response:
        steps = self._handlers.delete_each(request, target, user, answers)
        perform = await in_pieces(steps)
        find = partial(self._answer_of, request, target.kind, answers, perform)
        return await in_one(self._told(request, answers, find))

    def _settle(self, kind: Kind) -> None:
        from ...kubernetes.api.writes.settled_objects import settle  # few ask for these kinds

        settle(self._store, kind)

    def _stream_answer(
        self, request: HttpRequest, target: RequestTarget, user: Requester
    ) -> Response | Follow:
        """Answers a request for a stream into a container, such as its log."""
        from .streams.pod_streams import PodStreams  # few servers need it

        return PodStreams(self._store, self._scripts).answer(request, target, user)

    def _user(self, request: HttpRequest) -> Requester:
        """Returns the user of a request. Raises RefusedError with 400, 401 or 403."""
        user = sender(self._store, request.headers, request.certificate)
        return acting_user(self._store, user, request.headers)


def _formed(store: Store, request: HttpRequest, kind: Kind, performed: Performed) -> Response:
    """Returns an answer in the form that the client accepts, with its warnings."""
    answer = in_accepted_form(store, request, kind, performed.answer, performed.code)
    return in_yaml(request, with_warnings(answer, [*_deprecation(kind), *performed.warnings]))


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
