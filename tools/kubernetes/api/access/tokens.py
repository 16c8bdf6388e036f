"""The tokens of service accounts.

The tokens of a server that is not secure are not signed, since everybody who can reach it may act
for everybody anyway.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from berth.actors.scheduling.kube.times import rfc3339, seconds_of

from ..rules.fields import invalid, unsupported
from ..store import Store, TokenSigner
from ..types.api_documents import Document, RefusedError
from ..types.resources import BY_KIND, Kind
from .checks import check_types, refuse_problems
from .users import ADMINISTRATOR, AUTHENTICATED, Requester, account_groups, account_name
from .users import account_of as split

ISSUER = "https://kubernetes.default.svc.cluster.local"
TOKEN_SECONDS = 3600
SHORTEST_SECONDS, LONGEST_SECONDS = 600, 1 << 32
LEEWAY_SECONDS = 60.0  # after which a token ends with an object that is being deleted
PODS, NODES, SECRETS = (BY_KIND["v1", kind] for kind in ("Pod", "Node", "Secret"))
ACCOUNTS = BY_KIND["v1", "ServiceAccount"]
_BINDING = {"Pod": PODS, "Secret": SECRETS, "Node": NODES}  # what a token may be bound to
_GROUP = "authentication.k8s.io"
_EXTRA = "authentication.kubernetes.io"


class _Named(msgspec.Struct, frozen=True):
    name: str
    uid: str


class _BoundTo(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a token stands for: an account, and maybe a pod with its node, a secret or a node."""

    namespace: str
    serviceaccount: _Named
    node: _Named | None = None
    pod: _Named | None = None
    secret: _Named | None = None


class _Claims(msgspec.Struct, frozen=True):
    """The contents of a token, as Kubernetes writes them."""

    aud: list[str]
    exp: int
    iat: int
    iss: str
    jti: str
    kubernetes: _BoundTo = msgspec.field(name="kubernetes.io")
    nbf: int
    sub: str


def issued_token(store: Store, account: Document, request: Document) -> Document:
    """Answers a TokenRequest for a service account. Raises RefusedError."""
    check_types("TokenRequest", request)
    spec: Document = request.get("spec") or {}
    seconds = spec.get("expirationSeconds")
    seconds = TOKEN_SECONDS if seconds is None else seconds
    path = "spec.expirationSeconds"
    if seconds < SHORTEST_SECONDS:
        problems = [invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    elif seconds > LONGEST_SECONDS:
        problems = [invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")]
    else:
        problems = []
    metadata, named = account["metadata"], (request.get("metadata") or {}).get("name")
    if named and named != metadata["name"]:
        why = "must match the service account name if specified"
        wrong = invalid("metadata.name", named, why)
        refuse_problems("TokenRequest", metadata["name"], [wrong], _GROUP)
    refuse_problems("TokenRequest", named or "", problems, _GROUP)
    now = store.outside.wall()
    end = now + timedelta(seconds=seconds)
    audiences = spec.get("audiences") or [ISSUER]
    user = account_name(metadata["namespace"], metadata["name"])
    claims = _Claims(
        aud=audiences,
        exp=int(end.timestamp()),
        iat=int(now.timestamp()),
        iss=ISSUER,
        jti=store.outside.new_uid(),
        kubernetes=_bound_to(store, account, spec.get("boundObjectRef") or {}),
        nbf=int(now.timestamp()),
        sub=user,
    )
    signer = store.token_signer
    header = {"alg": "none", "typ": "JWT"}
    if signer is not None:
        header = {"alg": signer.algorithm, "kid": signer.key_id}
    signed = f"{_encoded_part(header)}.{_encoded_part(claims)}"
    signature = b"" if signer is None else signer.sign(signed.encode())
    token = f"{signed}.{_base64(signature)}"
    return {
        **request,
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "spec": {**spec, "audiences": audiences, "expirationSeconds": seconds},
        "status": {"token": token, "expirationTimestamp": rfc3339(end)},
    }


def bearer_user(store: Store, token: str) -> Requester:
    """Returns the service account of a token that this server made. A token of another cluster is
    the administrator's, unless the server is secure.

    Raises RefusedError with 401 if the token has expired, is malformed, not valid or for others
    than this server, or what it is bound to is gone.
    """
    return bearer_of(store, token, (ISSUER,))[0]


def bearer_of(
    store: Store, token: str, audiences: Sequence[str]
) -> tuple[Requester, Sequence[str]]:
    """Returns whose token it is, and those of the audiences that it is for. Raises RefusedError
    with 401.
    """
    claims = _claims(store.token_signer, token)
    if claims is None:
        if store.secure or not _is_token(token):
            raise _unauthorized()
        return ADMINISTRATOR, audiences
    shared = [audience for audience in claims.aud if audience in audiences]
    late = claims.exp < store.outside.wall().timestamp()
    if late or not shared or not _is_in_force(store, claims.kubernetes):
        raise _unauthorized()
    uid = claims.kubernetes.serviceaccount.uid
    groups = (*account_groups(claims.kubernetes.namespace), AUTHENTICATED)
    return Requester(claims.sub, uid, groups, _extra(claims)), shared


def _unauthorized() -> RefusedError:
    return RefusedError(401, "Unauthorized", "Unauthorized")


def _is_in_force(store: Store, bound: _BoundTo) -> bool:
    """True while everything is there that a token is bound to. The node of a pod need not be."""
    space = bound.namespace
    return all(
        named is None or _is_there(store, kind, namespace, named)
        for kind, namespace, named in (
            (ACCOUNTS, space, bound.serviceaccount),
            (PODS, space, bound.pod),
            (SECRETS, space, bound.secret),
            (NODES, "", bound.node if bound.pod is None else None),
        )
    )


def _is_there(store: Store, kind: Kind, namespace: str, named: _Named) -> bool:
    """True for an object of this uid that has not been deleted for longer than the leeway."""
    found = store.find(kind, namespace, named.name)
    if found is None or found["metadata"]["uid"] != named.uid:
        return False
    deleted = found["metadata"].get("deletionTimestamp")
    now = store.outside.wall().timestamp()
    return deleted is None or now - seconds_of(deleted) <= LEEWAY_SECONDS


def _extra(claims: _Claims) -> dict[str, list[str]]:
    """Returns what a token says about its user beside the name."""
    extra = {f"{_EXTRA}/credential-id": [f"JTI={claims.jti}"]}
    for what, named in (("node", claims.kubernetes.node), ("pod", claims.kubernetes.pod)):
        if named is not None:
            extra[f"{_EXTRA}/{what}-name"] = [named.name]
            extra[f"{_EXTRA}/{what}-uid"] = [named.uid]
    return extra


def _is_token(text: str) -> bool:
    """True for the form of a token: three parts, of which two hold JSON objects."""
    header, *parts = text.split(".")
    return len(parts) == 2 and all(isinstance(_decoded(part), dict) for part in (header, parts[0]))


def _decoded(part: str) -> Any:
    """Returns what a part of a token holds; None if it cannot be read."""
    try:
        return msgspec.json.decode(_octets(part))
    except (ValueError, msgspec.DecodeError):
        return None


def _bound_to(store: Store, account: Document, reference: Document) -> _BoundTo:
    """Returns what a token stands for. Raises RefusedError: 404 if there is no such object, 409 if
    it has another uid, 400 for a pod of another account.
    """
    metadata, kind = account["metadata"], reference.get("kind")
    namespace = metadata["namespace"]
    bound = _BoundTo(namespace, _named(account))
    if kind is None:
        return bound
    if kind not in _BINDING:
        problem = unsupported("spec.boundObjectRef.kind", kind, tuple(_BINDING))
        refuse_problems("TokenRequest", "", [problem], _GROUP)
    of = _BINDING[kind]
    found = store.get(of, namespace if of.namespaced else "", reference.get("name") or "")
    _check_reference(kind, metadata["name"], reference, found)
    if of is not PODS:
        return msgspec.structs.replace(bound, **{of.singular: _named(found)})
    node = store.find(NODES, "", found["spec"].get("nodeName") or "")
    named = None if node is None else _named(node)
    return msgspec.structs.replace(bound, pod=_named(found), node=named)


def _check_reference(kind: str, account: str, reference: Document, found: Document) -> None:
    if kind == "Pod" and found["spec"].get("serviceAccountName") != account:
        why = (
            f'cannot bind token for serviceaccount "{account}" to pod running with different '
            "serviceaccount name."
        )
        raise RefusedError(400, "BadRequest", why)
    uid, name = reference.get("uid"), reference.get("name")
    if uid and uid != found["metadata"]["uid"]:
        why = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        message = f'Operation cannot be fulfilled on {kind} "{name}": {why}'
        raise RefusedError(409, "Conflict", message, {"name": name, "kind": kind})


def _named(document: Document) -> _Named:
    return _Named(document["metadata"]["name"], document["metadata"]["uid"])


def _claims(signer: TokenSigner | None, token: str) -> _Claims | None:
    """Returns the contents of a token; None if it is not signed as it should be."""
    parts = token.split(".")
    if len(parts) != 3 or not token.isascii():
        return None
    try:
        signature, raw = map(_octets, (parts[2], parts[1]))
    except ValueError:
        return None
    signed = f"{parts[0]}.{parts[1]}".encode()
    if signature if signer is None else not signer.is_signed(signed, signature):
        return None
    try:
        claims = msgspec.json.decode(raw, type=_Claims)
    except (ValueError, msgspec.DecodeError):
        return None
    return claims if claims.iss == ISSUER and split(claims.sub) is not None else None


def _octets(part: str) -> bytes:
    """Decodes a part of a token. Raises ValueError."""
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _encoded_part(content: Any) -> str:
    return _base64(msgspec.json.encode(content))


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
