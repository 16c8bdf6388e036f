"""The embedded API server over HTTP: paths, bodies, watches and discovery."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from tools.apiserver.api import Api
from tools.apiserver.resources import BY_PATH, KINDS, Kind
from tools.apiserver.selectors import Matches, fields_match, labels_match
from tools.apiserver.store import Document, Event, Refused, Store

VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
BOOKMARK_SECONDS = 60.0


class Target(msgspec.Struct, frozen=True):
    """What a path names: a kind, and in it a namespace, an object and a subresource, each "" if not named."""

    kind: Kind
    namespace: str
    name: str
    subresource: str


def target_of(path: str) -> Target:
    """Raises Refused with 404 for a path that is nothing here."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise Refused(404, "NotFound", "the server could not find the requested resource")
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    kind = BY_PATH.get((group, version, rest[0]))
    if kind is None or len(rest) > 3:
        raise Refused(404, "NotFound", "the server could not find the requested resource")
    name, subresource = (*rest[1:], "", "")[:2]
    return Target(kind, namespace, name, subresource)


class Server:
    """Answers requests from one Api."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def application(self) -> web.Application:
        application = web.Application(client_max_size=64 << 20)
        application.router.add_route("*", "/{path:.*}", self._answer)
        return application

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            found = discovery(request.path)
            if found is not None:
                return _json(found)
            if request.path in ("/healthz", "/livez", "/readyz"):
                return web.Response(text="ok")
            target = target_of(request.path)
            if request.method == "GET" and not target.name and request.query.get("watch") in ("true", "1"):
                return await self._watch(request, target)
            body = await request.read()
            document = msgspec.json.decode(body) if body else {}
            return _json(*self._act(request, target, document))
        except Refused as refused:
            return _status(refused.code, refused.reason, str(refused))
        except msgspec.DecodeError as problem:
            return _status(400, "BadRequest", f"the body is no JSON: {problem}")

    def _act(self, request: web.Request, target: Target, document: Any) -> tuple[Document, int]:
        """Do what the request asks; the answer and its HTTP code."""
        api, kind, namespace, name = self._api, target.kind, target.namespace, target.name
        if not isinstance(document, dict) and request.method != "PATCH":
            raise Refused(400, "BadRequest", f"the body: expected an object, got {type(document).__name__}")
        match request.method, target.subresource:
            case "GET", "" if not name:
                return self._list(request, target), 200
            case "GET", "" | "status":
                return api.store.get(kind, namespace, name), 200
            case "POST", "" if not name:
                return api.create(kind, namespace, document), 201
            case "POST", "binding":
                api.bind(namespace, name, document)
                return {"apiVersion": "v1", "kind": "Status", "status": "Success", "code": 201}, 201
            case "PUT", "" | "status":
                return api.update(kind, namespace, name, document, target.subresource), 200
            case "PATCH", "" | "status":
                how = request.headers.get("Content-Type", "")
                return api.patch(kind, namespace, name, document, how, target.subresource), 200
            case "DELETE", "" if name:
                asked = document.get("gracePeriodSeconds", request.query.get("gracePeriodSeconds"))
                return api.delete(kind, namespace, name, None if asked is None else int(asked)), 200
            case _:
                raise Refused(405, "MethodNotAllowed", f"{request.method} is not allowed on {request.path}")

    def _list(self, request: web.Request, target: Target) -> Document:
        matches = _matches(request)
        items = [item for item in self._api.store.list(target.kind, target.namespace) if matches(item)]
        return {
            "apiVersion": target.kind.api_version,
            "kind": f"{target.kind.kind}List",
            "metadata": {"resourceVersion": str(self._api.store.revision)},
            "items": items,
        }

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        """Events from a revision on, until the client leaves or its time is over."""
        store, matches = self._api.store, _matches(request)
        revision = int(request.query.get("resourceVersion") or 0)
        seconds = float(request.query.get("timeoutSeconds") or 3600)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        pending: list[tuple[str, Document]] = []
        if revision == 0:
            pending = [("ADDED", item) for item in store.list(target.kind, target.namespace) if matches(item)]
            revision = store.revision
        else:
            store.since(revision)
        await response.prepare(request)
        try:
            async with asyncio.timeout(seconds):
                while True:
                    for event in store.since(revision):
                        revision = event.revision
                        if event.kind == target.kind:
                            pending.extend(_seen(event, target.namespace, matches))
                    for kind, document in pending:
                        await response.write(msgspec.json.encode({"type": kind, "object": document}) + b"\n")
                    pending.clear()
                    if store.revision == revision:
                        await self._news_or_bookmark(response, target, revision)
        except TimeoutError:
            await response.write_eof()
        except Refused as refused:
            document = _refusal(refused.code, refused.reason, str(refused))
            await response.write(msgspec.json.encode({"type": "ERROR", "object": document}) + b"\n")
        except ConnectionResetError:
            pass
        return response

    async def _news_or_bookmark(self, response: web.StreamResponse, target: Target, revision: int) -> None:
        try:
            async with asyncio.timeout(BOOKMARK_SECONDS):
                await self._api.store.news()
        except TimeoutError:
            mark = {
                "apiVersion": target.kind.api_version,
                "kind": target.kind.kind,
                "metadata": {"resourceVersion": str(revision)},
            }
            await response.write(msgspec.json.encode({"type": "BOOKMARK", "object": mark}) + b"\n")


def _seen(event: Event, namespace: str, matches: Matches) -> list[tuple[str, Document]]:
    """The event as a watcher with a selection sees it: an object that leaves the selection is deleted to it."""
    if namespace and event.document["metadata"].get("namespace") != namespace:
        return []
    was = event.before is not None and matches(event.before)
    now = event.type != "DELETED" and matches(event.document)
    match was, now:
        case True, True:
            return [("MODIFIED", event.document)]
        case False, True:
            return [("ADDED", event.document)]
        case True, False:
            return [("DELETED", event.document)]
        case _:
            return []


def _matches(request: web.Request) -> Matches:
    labels = labels_match(request.query.get("labelSelector", ""))
    fields = fields_match(request.query.get("fieldSelector", ""))
    return lambda document: labels(document) and fields(document)


def discovery(path: str) -> Document | None:
    """What the server serves, for clients that ask; None for every other path."""
    groups = sorted({(kind.group, kind.version) for kind in KINDS if kind.group})
    match path.strip("/").split("/"):
        case ["version"]:
            return {"major": "1", "minor": "36", "gitVersion": "v1.36.2", "platform": "berth"}
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        case ["apis"]:
            return {
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": [
                    {
                        "name": group,
                        "versions": [{"groupVersion": f"{group}/{version}", "version": version}],
                        "preferredVersion": {"groupVersion": f"{group}/{version}", "version": version},
                    }
                    for group, version in groups
                ],
            }
        case ["api", version]:
            return _resources("", version)
        case ["apis", group, version]:
            return _resources(group, version)
        case _:
            return None


def _resources(group: str, version: str) -> Document | None:
    served = [kind for kind in KINDS if (kind.group, kind.version) == (group, version)]
    if not served:
        return None
    resources = []
    for kind in served:
        entry = {
            "name": kind.plural,
            "singularName": kind.kind.lower(),
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": VERBS,
            "shortNames": list(kind.short),
        }
        resources.append(entry)
        if kind.status:
            resources.append({**entry, "name": f"{kind.plural}/status", "verbs": ["get", "patch", "update"]})
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served[0].api_version,
        "resources": resources,
    }


def _json(document: Document, code: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(document), status=code, content_type="application/json")


def _refusal(code: int, reason: str, message: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def _status(code: int, reason: str, message: str) -> web.Response:
    return _json(_refusal(code, reason, message), code)


@asynccontextmanager
async def serve(port: int = 0, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """An API server with an empty store for as long as the block runs; yields its URL. Raises OSError if it cannot."""
    runner = web.AppRunner(Server(Api(Store())).application(), access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield f"http://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
