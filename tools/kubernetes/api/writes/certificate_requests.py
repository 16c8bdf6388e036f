"""Certificate signing requests: who asked, and how a decision or a certificate is written down.

Mirrors Kubernetes' strategies for the object, its approval and its status, and the admission
plugins CertificateApproval and CertificateSigning, which ask whether the user may decide or sign
for the signer.
"""

from __future__ import annotations

from ..access.rights import Act, authorize
from ..access.users import Requester
from ..rules.certificate_rules import APPROVED, DENIED, approval, status
from ..store import Store
from ..types.api_documents import Document, RefusedError
from ..types.resources import BY_KIND

REQUESTS = BY_KIND["certificates.k8s.io/v1", "CertificateSigningRequest"]
APPROVAL, STATUS = "approval", "status"
_FROM_USER = ("username", "uid", "groups", "extra")


def requested_by(request: Document, user: Requester) -> Document:
    """Returns a new request that names its user."""
    spec = {key: value for key, value in request["spec"].items() if key not in _FROM_USER}
    return {**request, "spec": {**spec, **user.info()}}


def with_kept_request(request: Document, before: Document) -> Document:
    """Returns an update of a request, which may change nothing of what is asked."""
    return {**request, "spec": before["spec"], "status": before.get("status") or {}}


def decided(subresource: str, sent: Document, before: Document, now: str) -> Document:
    """Returns the status that a write of a subresource leads to: an approval changes the conditions
    alone, and a status keeps those that decide.
    """
    was = before.get("status") or {}
    conditions = sent.get("conditions") or []
    if subresource == APPROVAL:
        after = {**was, "conditions": [_dated(each, was, now) for each in conditions]}
    else:
        kept = _decisions_kept(conditions, was.get("conditions") or [])
        after = {**sent, "conditions": [_dated(each, was, now) for each in kept]}
    return after if after["conditions"] else {k: v for k, v in after.items() if k != "conditions"}


def _decisions_kept(conditions: list[Document], before: list[Document]) -> list[Document]:
    kept = list(conditions)
    for type_ in (APPROVED, DENIED):
        places = [i for i, each in enumerate(kept) if each.get("type") == type_]
        stored = [each for each in before if each.get("type") == type_]
        if len(places) == len(stored):
            for i, each in zip(places, stored, strict=True):
                kept[i] = each
    return kept


def _dated(condition: Document, before: Document, now: str) -> Document:
    """Returns a condition with the times that its writer left out."""
    since = now
    for each in before.get("conditions") or ():
        same = all(each.get(field) == condition.get(field) for field in ("type", "status"))
        if same and each.get("lastTransitionTime"):
            since = each["lastTransitionTime"]
            break
    return {
        **condition,
        "lastUpdateTime": condition.get("lastUpdateTime") or now,
        "lastTransitionTime": condition.get("lastTransitionTime") or since,
    }


def decision_problems(subresource: str, after: Document, before: Document) -> list[str]:
    return [*(approval if subresource == APPROVAL else status)(after, before)]


def check_signer(store: Store, user: Requester, subresource: str, request: Document) -> None:
    """Raises RefusedError with 403 if the user may not decide, or sign, for the signer."""
    name = request["spec"].get("signerName") or ""
    verb = "approve" if subresource == APPROVAL else "sign"
    domain = name.partition("/")[0]
    acts = [
        Act(verb, "certificates.k8s.io", "signers", name=each) for each in (name, f"{domain}/*")
    ]
    if not any(authorize(store, user, act).allowed for act in acts):
        named = request["metadata"].get("name", "")
        why = f'user not permitted to {verb} requests with signerName "{name}"'
        message = f'certificatesigningrequests.certificates.k8s.io "{named}" is forbidden: {why}'
        details = {
            "name": named,
            "group": "certificates.k8s.io",
            "kind": "certificatesigningrequests",
        }
        raise RefusedError(403, "Forbidden", message, details)
