"""The target of a request: the object in its path, and the right that the request needs."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from ..access.rights import Act
from ..types.api_documents import RefusedError
from ..types.catalog import Catalog
from ..types.resources import Kind
from .list_options import is_on
from .request import HttpRequest

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_BY_NAME = "metadata.name="


class RequestTarget(msgspec.Struct, frozen=True):
    """The kind, namespace, object and subresource in a path; "" for each part that it omits."""

    kind: Kind
    namespace: str
    name: str
    subresource: str


@lru_cache(maxsize=4096)
def target_of(path: str, catalog: Catalog) -> RequestTarget:
    """Parses a path. Raises RefusedError with 404 if nothing in the catalog is served at it."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, segments = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, segments = parts[1], parts[2], parts[3:]
    else:
        raise RefusedError(404, "NotFound", "the server could not find the requested resource")
    namespace = ""
    if (
        segments[0] == "namespaces"
        and len(segments) >= 3
        and segments[2] not in ("status", "finalize")
    ):
        namespace, segments = segments[1], segments[2:]
    kind = catalog.at(group, version, segments[0])
    if kind is None or len(segments) > 3 or (namespace and not kind.namespaced):
        raise RefusedError(404, "NotFound", "the server could not find the requested resource")
    name, subresource = (*segments[1:], "", "")[:2]
    if name and kind.namespaced and not namespace:
        raise RefusedError(404, "NotFound", "the server could not find the requested resource")
    if subresource and subresource not in kind.subresources:
        raise RefusedError(404, "NotFound", "the server could not find the requested resource")
    return RequestTarget(kind, namespace, name, subresource)


def unconverted_target_of(path: str, catalog: Catalog) -> RequestTarget:
    """Returns what a path names, for those who ask no webhook for conversions: a custom kind in the
    version in which its objects are stored.
    """
    target = target_of(path, catalog)
    custom = target.kind.custom
    if custom is None or custom.webhook is None:
        return target
    group, _, version = custom.stored_version.partition("/")
    kind = catalog.at(group, version, target.kind.plural) or target.kind
    return msgspec.structs.replace(target, kind=kind)


def act_of(request: HttpRequest) -> Act:
    """Returns the act that the user of a request asks for, whether it is served or not."""
    place = _place(request.path)
    if place is None:
        return Act(request.method.lower(), path=request.path)
    group, plural, namespace, name, subresource = place
    verb = _VERBS.get(request.method, "")
    if not name and verb == "delete":
        verb = "deletecollection"
    elif not name and verb == "get":
        verb = "watch" if is_on(request.query, "watch") else "list"
        field, _, value = request.query.get("fieldSelector", "").partition(_BY_NAME)
        name = "" if field else value.partition(",")[0]
    return Act(verb, group, plural, subresource, namespace, name)


@lru_cache(maxsize=4096)
def _place(path: str) -> tuple[str, str, str, str, str] | None:
    """Returns the group, resource, namespace, name and subresource in the path of a resource."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, segments = "", parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, segments = parts[1], parts[3:]
    else:
        return None
    namespace = ""
    if segments[0] == "namespaces" and len(segments) > 1:
        namespace = segments[1]
        if len(segments) > 2 and segments[2] not in ("status", "finalize"):
            segments = segments[2:]
    plural, name, subresource = (*segments, "", "")[:3]
    return group, plural, namespace, name, subresource
