"""The tokens of service accounts.

The tokens of a server that is not secure are not signed, since everybody who can reach it may act
for everybody anyway.
"""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import msgspec

from berth.actors.scheduling.kube.times import rfc3339

from ..rules.fields import invalid, unsupported
from ..store import Store, TokenSigner
from ..types.api_documents import Document, RefusedError
from ..types.resources import BY_KIND
from .checks import check_types, refuse_problems
from .users import ADMINISTRATOR, AUTHENTICATED, Requester, account_groups, account_name
from .users import account_of as split

ISSUER = "https://kubernetes.default.svc.cluster.local"
TOKEN_SECONDS = 3600
SHORTEST_SECONDS, LONGEST_SECONDS = 600, 1 << 32
PODS, NODES = BY_KIND["v1", "Pod"], BY_KIND["v1", "Node"]
ACCOUNTS = BY_KIND["v1", "ServiceAccount"]
_GROUP = "authentication.k8s.io"
_EXTRA = "authentication.kubernetes.io"


class _Named(msgspec.Struct, frozen=True):
    name: str
    uid: str


class _BoundTo(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a token stands for: an account, and maybe a pod with its node."""

    namespace: str
    serviceaccount: _Named
    node: _Named | None = None
    pod: _Named | None = None


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

    Raises RefusedError with 401 if the token has expired, is malformed or not valid, or the account
    is gone.
    """
    claims = _claims(store.token_signer, token)
    if claims is None:
        if store.secure or not _is_token(token):
            raise RefusedError(401, "Unauthorized", "Unauthorized")
        return ADMINISTRATOR
    namespace, name = split(claims.sub) or ("", "")
    account = store.find(ACCOUNTS, namespace, name)
    bound = claims.kubernetes
    gone = account is None or account["metadata"]["uid"] != bound.serviceaccount.uid
    if bound.pod is not None:
        pod = store.find(PODS, namespace, bound.pod.name)
        gone = gone or pod is None or pod["metadata"]["uid"] != bound.pod.uid
    if gone or claims.exp < store.outside.wall().timestamp():
        raise RefusedError(401, "Unauthorized", "Unauthorized")
    groups = (*account_groups(namespace), AUTHENTICATED)
    return Requester(claims.sub, bound.serviceaccount.uid, groups, _extra(claims))


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
    """Returns what a token stands for. Raises RefusedError with 404 if there is no such pod."""
    kind, namespace = reference.get("kind"), account["metadata"]["namespace"]
    bound = _BoundTo(namespace, _named(account))
    if kind is None or kind in ("Secret", "Node"):
        return bound
    if kind != "Pod":
        problem = unsupported("spec.boundObjectRef.kind", kind, ("Pod", "Secret", "Node"))
        refuse_problems("TokenRequest", "", [problem], _GROUP)
    pod = store.get(PODS, namespace, reference.get("name") or "")
    node = store.find(NODES, "", pod["spec"].get("nodeName") or "")
    return _BoundTo(
        namespace, bound.serviceaccount, None if node is None else _named(node), _named(pod)
    )


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
