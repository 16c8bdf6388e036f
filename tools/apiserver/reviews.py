"""Questions about users and their rights, and the tokens of service accounts.

The server knows no users and allows everything: every client is the same administrator. Only a
token that the server made stands for its service account. A token is not signed, since everybody
may do everything anyway.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from .rules.fields import invalid
from .schema import unknown_and_mistyped
from .store import Document, RefusedError
from .validation import invalid_details, invalid_message

ADMINISTRATOR = {"username": "kubernetes-admin", "groups": ["system:masters"]}
WHY = "this API server allows everything"
ISSUER = "berth"
TOKEN_SECONDS = 3600
SHORTEST_SECONDS, LONGEST_SECONDS = 600, 1 << 32
_HEADER = {"alg": "none", "typ": "JWT"}


class _Claims(msgspec.Struct, frozen=True):
    """The contents of a token."""

    iss: str
    sub: str
    uid: str
    aud: list[str]
    exp: int


def review(kind: str, namespace: str, document: Document, token: str) -> Document:
    """Answers a review of this kind. `token` is the client's own. Raises RefusedError."""
    _check_types(kind, document)
    spec: Document = document.get("spec") or {}
    match kind:
        case "TokenReview":
            status = _authenticated(spec)
        case "SelfSubjectReview":
            status = {"userInfo": _user(token)}
        case "SelfSubjectRulesReview":
            status = _rules(spec)
        case _:
            status = _access(kind, namespace, document, spec)
    return {"metadata": {}, **document, "status": status}


def issued_token(account: Document, request: Document, now: datetime) -> Document:
    """Answers a TokenRequest for a service account. Raises RefusedError."""
    _check_types("TokenRequest", request)
    spec: Document = request.get("spec") or {}
    seconds = spec.get("expirationSeconds", TOKEN_SECONDS)
    path = "spec.expirationSeconds"
    if seconds < SHORTEST_SECONDS:
        problems = [invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    elif seconds > LONGEST_SECONDS:
        problems = [invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")]
    else:
        problems = []
    metadata = account["metadata"]
    _refuse("TokenRequest", metadata["name"], problems)
    end = now.astimezone(UTC) + timedelta(seconds=seconds)
    audiences = spec.get("audiences") or [ISSUER]
    user = f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}"
    claims = _Claims(ISSUER, user, metadata["uid"], audiences, int(end.timestamp()))
    token = f"{_part(_HEADER)}.{_part(claims)}."
    return {
        **request,
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "spec": {**spec, "audiences": audiences, "expirationSeconds": seconds},
        "status": {"token": token, "expirationTimestamp": end.strftime("%Y-%m-%dT%H:%M:%SZ")},
    }


def _authenticated(spec: Document) -> Document:
    token = spec.get("token", "")
    if not token:
        why = "token is required for TokenReview in authentication"
        raise RefusedError(400, "BadRequest", why)
    audiences = {"audiences": spec["audiences"]} if spec.get("audiences") else {}
    return {"authenticated": True, "user": _user(token), **audiences}


def _user(token: str) -> Document:
    """Returns the service account of a token that this server made; else the administrator."""
    claims = _claims(token)
    if claims is None:
        return {**ADMINISTRATOR, "groups": [*ADMINISTRATOR["groups"], "system:authenticated"]}
    namespace = claims.sub.split(":")[2]
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    return {
        "username": claims.sub,
        "uid": claims.uid,
        "groups": [*groups, "system:authenticated"],
    }


def _claims(token: str) -> _Claims | None:
    parts = token.split(".")
    if len(parts) != 3 or parts[2]:
        return None
    try:
        raw = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        claims = msgspec.json.decode(raw, type=_Claims)
    except (ValueError, msgspec.DecodeError):
        return None
    ours = claims.iss == ISSUER and len(claims.sub.split(":")) == 4
    return claims if ours else None


def _part(content: Any) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(content)).decode().rstrip("=")


def _rules(spec: Document) -> Document:
    if not spec.get("namespace"):
        raise RefusedError(400, "BadRequest", "no namespace on request")
    return {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


def _access(kind: str, namespace: str, document: Document, spec: Document) -> Document:
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    problems = []
    if resource is not None and other is not None:
        why = "cannot be specified in combination with resourceAttributes"
        problems.append(invalid("spec.nonResourceAttributes", other, why))
    if resource is None and other is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        problems.append(invalid("spec.resourceAttributes", None, why))
    asks_for_other = kind != "SelfSubjectAccessReview"
    if asks_for_other and not spec.get("user") and not spec.get("groups"):
        why = "at least one of user or group must be specified"
        problems.append(invalid("spec.user", "", why))
    if kind == "LocalSubjectAccessReview":
        where = (resource or {}).get("namespace", "")
        if resource is not None and where != namespace:
            path = "spec.resourceAttributes.namespace"
            problems.append(invalid(path, where, "must match metadata.namespace"))
        if other is not None:
            why = "disallowed on this kind of request"
            problems.append(invalid("spec.nonResourceAttributes", other, why))
    _refuse(kind, (document.get("metadata") or {}).get("name", ""), problems)
    return {"allowed": True, "reason": WHY}


def _check_types(kind: str, document: Document) -> None:
    """Raises RefusedError with 400 for a value of the wrong type."""
    findings = unknown_and_mistyped(kind, document)
    if findings.mistyped:
        raise RefusedError(400, "BadRequest", findings.mistyped)


def _refuse(kind: str, name: str, problems: list[str]) -> None:
    if problems:
        details = invalid_details(kind, name, problems)
        raise RefusedError(422, "Invalid", invalid_message(kind, name, problems), details)
