"""The pages of the server itself, which name no object: health, discovery, schemas, metrics."""

from __future__ import annotations

import msgspec

from ...kubernetes.api.access.tokens import ISSUER
from ...kubernetes.api.requests.accepted_forms import GROUP_LIST, accepted_form, check_accepts
from ...kubernetes.api.requests.health_pages import CHECKS, health_page
from ...kubernetes.api.requests.request import HttpRequest
from ...kubernetes.api.store import Store
from ...kubernetes.api.types.api_documents import Document, RefusedError
from ...kubernetes.api.types.catalog import Catalog
from ...kubernetes.api.types.resources import Kind
from .answer_forms import as_json
from .http import Response

TEXT = "text/plain; charset=utf-8"
METRICS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
KEYS, KEY_SET = "/openid/v1/jwks", "application/jwk-set+json"
NOT_ALLOWED = "the server does not allow this method on the requested resource"
_CONFIGURATION = "/.well-known/openid-configuration"
_PARTS = ("/api/", "/apis/")


def server_page(store: Store, request: HttpRequest, more: tuple[Kind, ...]) -> Response | None:
    """Returns the page at a path; None for the path of objects. `more` are kinds beside those of
    the catalog.

    Raises RefusedError: 404 if there is no such page, 405 for a method that it does not have, and
    406 if it cannot be had in a form that the client accepts.
    """
    path, catalog = request.path, store.catalog
    if path.startswith(_PARTS):
        path = path.rstrip("/")  # as go-restful does, which serves these pages
        if path.count("/") > 3:
            return None  # most requests
    health = health_page(path, request.query)
    if health is not None:
        return Response(health.text.encode(), health.code, TEXT)
    if path == "/openapi/v2":
        return _version_2(request, catalog)
    plain = path.rstrip("/")
    if request.method != "GET" and plain not in ("/api", "/apis"):
        if path.startswith("/api/") and path.count("/") > 2:
            return None  # most writes of what has no namespace
        if _discovery(plain, catalog, more) is not None:
            raise RefusedError(405, "MethodNotAllowed", NOT_ALLOWED)
        return None
    if path.startswith("/openapi/v3"):
        return _version_3(path, catalog)
    match plain:
        case "":
            return as_json({"paths": _paths(catalog, more)})
        case "/api" | "/apis":
            return _groups(plain, request, catalog, more)
        case "/metrics":
            return Response(_metrics(store).encode(), content_type=METRICS_TEXT)
        case "/.well-known/openid-configuration":
            return as_json(_openid_configuration(request))
        case "/openid/v1/jwks":
            check_accepts(request.headers.get("accept", ""), KEY_SET)
            keys = [] if store.token_signer is None else store.token_signer.public_keys()
            return Response(msgspec.json.encode({"keys": keys}), content_type=KEY_SET)
    served = _discovery(plain, catalog, more)
    if served is None:
        return None
    accepted_form(request.headers.get("accept", ""))
    return as_json(served)


def _discovery(path: str, catalog: Catalog, more: tuple[Kind, ...]) -> Document | None:
    from ...kubernetes.api.types.discovery import discovery

    return discovery(path, catalog, more)


def _version_3(path: str, catalog: Catalog) -> Response:
    """Returns a document of version 3, or the index of them, which Kubernetes calls plain text."""
    from ...kubernetes.api.types.openapi import document as openapi

    document = None if path.endswith("/") else openapi(path, catalog)
    if document is None:
        return Response(b"", 404, content_type="")
    answer = as_json(document)
    is_index = path == "/openapi/v3"
    return msgspec.structs.replace(answer, content_type=TEXT) if is_index else answer


def _version_2(request: HttpRequest, catalog: Catalog) -> Response:
    from ...kubernetes.api.types.openapi_version_2 import (
        ACCEPTED_AS_PROTOBUF,
        PROTOBUF,
        version_2_as_json,
        version_2_as_protobuf,
    )

    accept = request.headers.get("accept", "")
    if any(media_type in accept for media_type in ACCEPTED_AS_PROTOBUF):
        return Response(version_2_as_protobuf(catalog), content_type=PROTOBUF)
    return Response(version_2_as_json(catalog))


def missing_page(path: str, catalog: Catalog, more: tuple[Kind, ...]) -> Response | None:
    """Returns the answer for a path that is no path of the API: of no group that is served."""
    root, _, group = path.strip("/").partition("/")
    group = group.partition("/")[0]
    groups = {kind.group for kind in (*catalog.served, *more)} if root == "apis" else ()
    if root == "api" or group in groups:
        return None
    return Response(b"404 page not found\n", 404, TEXT)


def _groups(path: str, request: HttpRequest, catalog: Catalog, more: tuple[Kind, ...]) -> Response:
    """Returns the groups below /api or /apis: with all of their kinds for a client that accepts
    that, else with their versions.
    """
    accept = request.headers.get("accept", "")
    from ...kubernetes.api.types.discovery import discovery

    if accepted_form(accept, of_groups=True).as_kind == GROUP_LIST:
        from ...kubernetes.api.types.aggregated_discovery import MEDIA_TYPE, aggregated_discovery

        aggregated = aggregated_discovery(path, catalog, more) or {}
        return Response(as_json(aggregated).body, content_type=MEDIA_TYPE)
    groups = discovery(path, catalog, more) or {}
    if path == "/api":
        address = {"clientCIDR": "0.0.0.0/0", "serverAddress": request.headers.get("host", "")}
        groups = {**groups, "serverAddressByClientCIDRs": [address]}
    return as_json(groups)


def _paths(catalog: Catalog, more: tuple[Kind, ...]) -> list[str]:
    """Returns the paths of all pages, sorted."""
    kinds = [kind for kind in (*catalog.served, *more) if kind.group]
    checks = [f"/{page}/{check}" for page, checks in CHECKS.items() for check in checks]
    return sorted(
        {
            *("/api", "/api/v1", "/apis", "/apis/", "/metrics", "/openapi/v2", "/openapi/v3"),
            *("/openapi/v3/", "/version", KEYS, _CONFIGURATION),
            *(f"/apis/{kind.group}" for kind in kinds),
            *(f"/apis/{kind.api_version}" for kind in kinds),
            *(f"/{page}" for page in CHECKS),
            *checks,
        }
    )


def _openid_configuration(request: HttpRequest) -> dict[str, object]:
    return {
        "issuer": ISSUER,
        "jwks_uri": f"https://{request.headers.get('host', '')}{KEYS}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }


def _metrics(store: Store) -> str:
    """Returns the numbers of objects in Prometheus' text format."""
    lines = [
        "# HELP apiserver_resource_objects [STABLE] Number of stored objects, by kind.",
        "# TYPE apiserver_resource_objects gauge",
    ]
    for kind in store.catalog.kinds:
        if kind.stored_as is None:
            labels = f'group="{kind.group}",resource="{kind.plural}"'
            lines.append(f"apiserver_resource_objects{{{labels}}} {store.count(kind)}")
    version = store.catalog.release.version
    labels = f'git_version="{version.release}",major="1",minor="{version.minor}",platform="berth"'
    lines += [
        "# HELP kubernetes_build_info [ALPHA] The version of Kubernetes whose API is served.",
        "# TYPE kubernetes_build_info gauge",
        f"kubernetes_build_info{{{labels}}} 1",
    ]
    return "\n".join(lines) + "\n"
