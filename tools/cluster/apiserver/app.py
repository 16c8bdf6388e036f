"""The embedded API server over HTTP: paths, bodies and content negotiation."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from berth.actors.scheduling.kube.yaml_documents import documents

from ...kubernetes.api import resource_metrics
from ...kubernetes.api.access.impersonation import acting_user
from ...kubernetes.api.access.reviews import review
from ...kubernetes.api.access.rights import check_right
from ...kubernetes.api.access.tokens import bearer_user, issued_token
from ...kubernetes.api.access.users import ADMINISTRATOR, Requester
from ...kubernetes.api.requests.list_options import check_list, is_on
from ...kubernetes.api.requests.origins import Guard
from ...kubernetes.api.requests.request import HttpRequest
from ...kubernetes.api.requests.request_bodies import delete_options, is_dry_run
from ...kubernetes.api.requests.request_targets import RequestTarget, act_of, target_of
from ...kubernetes.api.requests.selectors import Matches, matches_of
from ...kubernetes.api.store import Store
from ...kubernetes.api.tables import table
from ...kubernetes.api.types.api_documents import Document, RefusedError, StoredObject
from ...kubernetes.api.types.conversion import served_form, served_raw
from ...kubernetes.api.types.discovery import discovery
from ...kubernetes.api.types.openapi import VERSION_2_TYPE, version_2
from ...kubernetes.api.types.openapi import document as openapi
from ...kubernetes.api.types.protobuf import CONTENT_TYPE as PROTOBUF
from ...kubernetes.api.types.protobuf import decoded
from ...kubernetes.api.types.resources import DEPRECATED, METRICS, REVIEWS, UNSERVED, Kind
from ...kubernetes.api.types.schema import duplicate_fields
from ...kubernetes.api.writes.caller import Caller
from ...kubernetes.api.writes.patch import JSON_PATCH, MERGE, STRATEGIC
from ...kubernetes.api.writes.registry import Api
from .http import Follow, Response, listen
from .namespace_controller import end_namespaces
from .this_machine import this_machine
from .watch import Watch

APPLY = "application/apply-patch+yaml"
JSON, YAML = "application/json", "application/yaml"
MOST_WARNINGS_CHARACTERS = 4096
MOST_WARNING_CHARACTERS = 256  # of each warning, if all together exceed the limit above
LONGEST_PATH = 1024  # room for two names of 253 bytes and the rest of the path
SUCCESS: Document = {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"}
Answer = StoredObject | Document


class Server:
    """An API server with one store.

    `allowed_hosts` are names of the server in addition to the local ones, such as localhost. With
    `kubelets`, it serves metrics.
    """

    def __init__(
        self,
        store: Store,
        allowed_hosts: Collection[str] = (),
        kubelets: resource_metrics.Kubelets | None = None,
    ) -> None:
        self._store = store
        self._kubelets = kubelets
        self._measured_kinds = () if kubelets is None else METRICS
        self._guard = Guard(allowed_hosts)

    def answer(self, request: HttpRequest) -> Response | Follow:
        try:
            self._guard.check(request.headers)
            return self._answer(request)
        except RefusedError as refused:
            return _refused(refused)
        except RecursionError:
            return _refused(RefusedError(400, "BadRequest", "the body is nested too deeply"))

    def carry_out(self, request: HttpRequest, media_type: str) -> Document:
        """Answers a request of the administrator with a document, which must not be changed.

        `media_type` is the media type of the body. Raises RefusedError.
        """
        target = self._target(request)
        if request.method == "GET":
            answer = self._read(request, target)
        else:
            caller = Caller(ADMINISTRATOR, "patch" if request.method == "PATCH" else "update")
            document = msgspec.json.decode(request.body) if request.body else {}
            api = Api(self._store, caller=caller)
            answer, _ = self._write(api, request, target, document, media_type)
        if isinstance(answer, StoredObject):
            return served_form(target.kind, answer.document)
        if isinstance(answer, dict):
            return answer
        items = [served_form(target.kind, stored.document) for stored in answer]
        return {"metadata": {"resourceVersion": str(self._store.revision)}, "items": items}

    def _answer(self, request: HttpRequest) -> Response | Follow:
        path = request.path
        if len(path) > LONGEST_PATH:
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        user = self._user(request)
        if not user.may_all:
            check_right(self._store, user, act_of(request))
        if path in ("/healthz", "/livez", "/readyz"):
            return Response(b"ok", content_type="text/plain")
        release = self._store.release
        if path == "/openapi/v2":
            return Response(version_2(release), content_type=VERSION_2_TYPE)
        if request.method == "GET":
            served = discovery(path, release, self._measured_kinds) or openapi(path, release)
            if served is not None:
                return _json(served)
        target = self._target(request)
        kind, code, warnings = target.kind, 200, list[str]()
        answer: Answer | list[StoredObject]
        if kind in METRICS:
            answer = self._metrics_answer(request, target)
        elif kind in REVIEWS:
            answer, code = self._review_answer(request, target, user), 201
        elif request.method != "GET":
            answer, code, warnings = self._write_answer(request, target, user)
        elif not target.name and is_on(request.query, "watch"):
            return Watch(self._store, kind, target.namespace, request).run
        else:
            answer = self._read(request, target)
        return _with_warnings(
            self._in_accepted_form(request, kind, answer, code), _deprecation(kind) + warnings
        )

    def _target(self, request: HttpRequest) -> RequestTarget:
        """Returns what the path names. Raises RefusedError with 404 if this version of Kubernetes
        does not serve it.
        """
        target = target_of(request.path)
        if not self._store.release.serves(target.kind):
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        return target

    def _write_answer(
        self, request: HttpRequest, target: RequestTarget, user: Requester
    ) -> tuple[Answer, int, list[str]]:
        """Performs a write, or a dry run of it. Returns the answer, its code and the warnings."""
        raw = request.body
        media_type = _media_type(request)
        document = _body(raw, media_type) if raw or request.method != "DELETE" else {}
        options = document if request.method == "DELETE" else None
        if target.subresource == "eviction" and isinstance(document, dict):
            options = document.get("deleteOptions")
        dry = is_dry_run(request.method, request.query, options)
        validation = request.query.get("fieldValidation", "Warn")
        duplicates = duplicate_fields(raw) if validation == "Strict" and raw[:1] == b"{" else ()
        caller = Caller(user, "patch" if request.method == "PATCH" else "update", dry)
        api = Api(self._store.fork() if dry else self._store, validation, duplicates, caller)
        answer, code = self._write(api, request, target, document, media_type)
        if dry and isinstance(answer, StoredObject):
            answer = self._dry_run_answer(target.kind, answer)
        return answer, code, api.warnings

    def _dry_run_answer(self, kind: Kind, tried: StoredObject) -> StoredObject:
        """Returns the object of a dry run, with the version of the stored object, if there is
        one.
        """
        metadata = dict(tried.document["metadata"])
        stored = self._store.find(kind, metadata.get("namespace", ""), metadata["name"])
        metadata.pop("resourceVersion")
        if stored is not None:
            metadata["resourceVersion"] = stored["metadata"]["resourceVersion"]
        return StoredObject({**tried.document, "metadata": metadata}, tried.revision)

    def _user(self, request: HttpRequest) -> Requester:
        """Returns the user of a request. Raises RefusedError with 400, 401 or 403."""
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        user = bearer_user(self._store, token) if token else ADMINISTRATOR
        return acting_user(self._store, user, request.headers)

    def _review_answer(
        self, request: HttpRequest, target: RequestTarget, user: Requester
    ) -> Document:
        """Answers a review, such as a SubjectAccessReview, which is not stored."""
        if request.method != "POST" or target.name:
            raise self._not_allowed(request, target)
        kind = target.kind
        document = _of_kind(kind, _body(request.body, _media_type(request)))
        answer = review(self._store, user, kind.kind, target.namespace, document)
        return {"apiVersion": kind.api_version, "kind": kind.kind, **answer}

    def _metrics_answer(
        self, request: HttpRequest, target: RequestTarget
    ) -> StoredObject | list[StoredObject]:
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
        after, _ = _continue_position(request)
        return resource_metrics.metrics_in(
            kubelets, self._store, kind, target.namespace, _matches(request, kind), after
        )

    def _read(self, request: HttpRequest, target: RequestTarget) -> Answer | list[StoredObject]:
        if not target.name:
            return self._list(request, target)
        match target.subresource:
            case "" | "status" | "resize":
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
            case "POST", "" if not name:
                return api.create(kind, namespace, _of_kind(kind, document)), 201
            case "POST", "binding":
                api.bind(namespace, name, _object(document))
                return {**SUCCESS, "code": 201}, 201
            case "POST", "token":
                account = self._store.get(kind, namespace, name)
                issued = issued_token(self._store, account, _object(document))
                api.admit("CREATE", kind, namespace, name, issued, None, subresource)
                return issued, 201
            case "POST", "eviction":
                api.evict(namespace, name, _object(document))
                return {**SUCCESS, "code": 201}, 201
            case "PUT", "scale":
                api.rescale(kind, namespace, name, _object(document))
                return api.scale_of(kind, namespace, name), 200
            case "PUT", "" | "status" | "resize" | "finalize" if name:
                return api.update(kind, namespace, name, _of_kind(kind, document), subresource), 200
            case "PATCH", "" | "status" | "resize" | "scale" if name:
                if media_type == APPLY and isinstance(document, dict):
                    stored, created = api.apply(kind, namespace, name, document, subresource)
                    return stored, 201 if created else 200
                patched = api.patch(kind, namespace, name, document, media_type, subresource)
                return api.scale_of(
                    kind, namespace, name
                ) if subresource == "scale" else patched, 200
            case "DELETE", "":
                options = delete_options(_object(document), request.query)
                if name:
                    return api.delete(kind, namespace, name, options), 200
                gone = api.delete_all(kind, namespace, _matches(request, kind), options)
                return {
                    **SUCCESS,
                    "details": {"kind": kind.plural, "group": kind.group, "removed": len(gone)},
                }, 200
            case _:
                raise self._not_allowed(request, target)

    def _not_allowed(self, request: HttpRequest, target: RequestTarget) -> RefusedError:
        """Returns the refusal with 405; for a subresource that needs running containers, it says
        so.

        Raises RefusedError with 404 if the pod of such a subresource does not exist.
        """
        if target.subresource in UNSERVED:
            self._store.stored(target.kind, target.namespace, target.name)
            why = (
                f"pod {target.name} is hollow: no container runs in it, "
                f"so there is no {target.subresource}"
            )
            return RefusedError(405, "MethodNotAllowed", why)
        return RefusedError(
            405, "MethodNotAllowed", f"{request.method} is not allowed on {request.path}"
        )

    def _list(self, request: HttpRequest, target: RequestTarget) -> list[StoredObject]:
        """Returns all selected objects, in one piece; `_in_accepted_form` makes pages of them."""
        check_list(request.query)
        matches = _matches(request, target.kind)
        after, revision = _continue_position(request)
        if revision:
            self._store.check_known(target.kind, revision)
        listed = self._store.list(target.kind, target.namespace, after)
        return [stored for stored in listed if matches is None or matches(stored.document)]

    def _in_accepted_form(
        self, request: HttpRequest, kind: Kind, answer: Answer | list[StoredObject], code: int = 200
    ) -> Response:
        """Returns the answer in the form that the client accepts: objects, their metadata, or a
        table.
        """
        accept = request.headers.get("accept", "")
        as_table = "as=Table" in accept.partition(",")[0]
        if isinstance(answer, StoredObject) and not as_table:
            return Response(served_raw(kind, answer), code)
        if isinstance(answer, dict):
            return _json(answer, code)
        selected = [answer] if isinstance(answer, StoredObject) else answer
        _, first_revision = _continue_position(request)
        revision, token = str(first_revision or self._store.revision), ""
        items = selected[: _limit(request)]
        if len(items) < len(selected):
            last = items[-1].document["metadata"]
            token = _token(revision, last.get("namespace", ""), last["name"])
        if as_table:
            include = request.query.get("includeObject", "Metadata")
            shown = [stored.document for stored in items]
            return _json(
                table(
                    kind,
                    shown,
                    revision=revision,
                    now=self._store.outside.wall(),
                    include=include,
                    continue_=token,
                )
            )
        metadata: Document = {"resourceVersion": revision}
        if token:
            metadata |= {"continue": token, "remainingItemCount": len(selected) - len(items)}
        if "as=PartialObjectMetadataList" in accept:
            head = {
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
            }
            part = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
            return _json(
                {
                    **head,
                    "items": [
                        {**part, "metadata": stored.document["metadata"]} for stored in items
                    ],
                }
            )
        head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata}
        opened = msgspec.json.encode(head)[:-1] + b',"items":['
        return Response(opened + b",".join([served_raw(kind, stored) for stored in items]) + b"]}")


def _media_type(request: HttpRequest) -> str:
    """Returns the media type of the body: JSON if the header is missing.

    Raises RefusedError with 415 for a type that holds no object. This also keeps web pages out: a
    browser sends forms and plain text to any site, but other types only to a site that agreed to
    it.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    accepted: tuple[str, ...] = (JSON, YAML, PROTOBUF)
    if request.method == "PATCH":
        accepted = (STRATEGIC, MERGE, JSON_PATCH, APPLY)
    elif not media_type or (request.method == "DELETE" and not request.body):
        media_type = JSON
    if media_type not in accepted:
        message = f"Content-Type: expected {' or '.join(accepted)}, got {media_type!r}"
        raise RefusedError(415, "UnsupportedMediaType", message)
    return media_type


def _body(raw: bytes, media_type: str) -> Any:
    """Returns the document in a body; None if empty. Raises RefusedError with 400 if unreadable."""
    if not raw:
        return None
    if media_type == PROTOBUF:
        return decoded(raw)
    try:
        if media_type in (APPLY, YAML):
            (document,) = documents(raw) or (None,)
            return document
        return msgspec.json.decode(raw)
    except (ValueError, RecursionError) as problem:
        raise RefusedError(400, "BadRequest", f"the body cannot be read: {problem}") from None


def _object(document: Any) -> Document:
    """Returns the document. Raises RefusedError with 400 if it is not an object."""
    if not isinstance(document, dict):
        sort = "nothing" if document is None else type(document).__name__
        raise RefusedError(400, "BadRequest", f"the body: expected an object, got {sort}")
    return document


def _of_kind(kind: Kind, document: Any) -> Document:
    """Returns the document. Raises RefusedError with 400 if it is not an object of this kind."""
    read = _object(document)
    for field, expected in (("kind", kind.kind), ("apiVersion", kind.api_version)):
        value = read.get(field) or expected
        if value != expected:
            raise RefusedError(400, "BadRequest", f"{field}: expected {expected}, got {value}")
    return read


def _matches(request: HttpRequest, kind: Kind) -> Matches | None:
    return matches_of(
        kind, request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
    )


def _token(revision: str, namespace: str, name: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode((int(revision), namespace, name))).decode()


def _limit(request: HttpRequest) -> int | None:
    """Returns the number of objects on a page; None for all. Raises RefusedError with 400."""
    try:
        return max(int(request.query.get("limit") or 0), 0) or None
    except ValueError as problem:
        raise RefusedError(400, "BadRequest", f"limit: {problem}") from None


def _continue_position(request: HttpRequest) -> tuple[tuple[str, str] | None, int]:
    """Returns the key after which a list continues, and the revision of its first page.

    Raises RefusedError with 400 for a token that this server did not issue.
    """
    token = request.query.get("continue", "")
    if not token:
        return None, 0
    try:
        revision, namespace, name = msgspec.json.decode(
            base64.urlsafe_b64decode(token), type=tuple[int, str, str]
        )
    except (ValueError, msgspec.DecodeError):
        raise RefusedError(
            400, "BadRequest", "continue: expected the token of an earlier list"
        ) from None
    return (namespace, name), revision


def _deprecation(kind: Kind) -> list[str]:
    return [DEPRECATED[kind]] if kind in DEPRECATED else []


def _with_warnings(response: Response, messages: list[str]) -> Response:
    if not messages:
        return response
    return msgspec.structs.replace(response, warnings=_warnings(messages))


def _warnings(messages: list[str]) -> tuple[str, ...]:
    """Returns the Warning headers, cut to the same total length as Kubernetes cuts them.

    The name of a field may hold any character. A character that could end the header is replaced or
    escaped.
    """
    most = (
        MOST_WARNING_CHARACTERS
        if sum(map(len, messages)) > MOST_WARNINGS_CHARACTERS
        else MOST_WARNINGS_CHARACTERS
    )
    headers, left = [], MOST_WARNINGS_CHARACTERS
    for message in messages:
        text = "".join([c if c.isprintable() else " " for c in message[:most]])
        left -= len(text)
        if left < 0:
            break
        headers.append('299 - "' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')
    return tuple(headers)


def _json(document: Document, code: int = 200) -> Response:
    return Response(msgspec.json.encode(document), code)


def _refused(refused: RefusedError) -> Response:
    answer = _json(refusal(refused), refused.code)
    seconds = (refused.details or {}).get("retryAfterSeconds", 0)
    return msgspec.structs.replace(answer, retry_after=seconds) if seconds else answer


def refusal(refused: RefusedError) -> Document:
    """Returns the metav1.Status that reports a refusal."""
    failed = {
        "status": "Failure",
        "message": str(refused),
        "reason": refused.reason,
        "details": refused.details or {},  # kubectl reads it without a check
        "code": refused.code,
    }
    return {"apiVersion": "v1", "kind": "Status", "metadata": {}, **failed}


@asynccontextmanager
async def serve(
    port: int = 0,
    host: str = "127.0.0.1",
    store: Store | None = None,
    allowed_hosts: Collection[str] = (),
    kubelets: resource_metrics.Kubelets | None = None,
) -> AsyncIterator[str]:
    """Runs an API server during the block, and yields its URL. Without a store it starts empty.

    It serves metrics if there are kubelets to ask. Raises OSError.
    """
    store = Store(this_machine()) if store is None else store
    Api(store).seed()
    server = Server(store, (host, *allowed_hosts), kubelets)
    async with listen(server.answer, port, host) as url:
        ending = asyncio.create_task(end_namespaces(store))
        try:
            yield url
        finally:
            ending.cancel()
