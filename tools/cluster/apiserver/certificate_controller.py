"""Approves, signs and forgets certificate requests, as kube-controller-manager does.

It begins with the first request. Without the package cryptography, requests stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

import anyio

from ...kubernetes.api.access.rights import Act, authorize
from ...kubernetes.api.access.users import Requester
from ...kubernetes.api.store import Store
from ...kubernetes.api.types.api_documents import Document, RefusedError
from ...kubernetes.api.writes.certificate_requests import APPROVAL, REQUESTS, STATUS
from ...kubernetes.api.writes.registry import Api
from .next_write import next_write

Issue = Callable[..., str]  # see Authority.issue
PATIENCE = timedelta(hours=1)  # that a request is kept after a decision
UNDECIDED_PATIENCE = timedelta(hours=24)
CLEANING_SECONDS = 3600.0
_DECISIONS = ("Approved", "Denied", "Failed")


async def decide_requests(store: Store, issue: Issue | None) -> None:
    """Approves requests, and signs them as `issue` does or with an authority of its own. Returns
    only without cryptography.
    """
    while True:
        requests = [stored.document for stored in store.list(REQUESTS)]
        if requests:
            now = store.outside.wall()
            try:
                from .authority import Authority
            except ImportError:
                return
            issue = issue or Authority(now).issue
            before = store.revision
            for request in requests:
                with suppress(RefusedError, ValueError):  # left alone until it is written again
                    _decide(store, request, issue, now)
            if store.revision != before:
                continue
        with anyio.move_on_after(CLEANING_SECONDS):
            await next_write(store, REQUESTS)


def _decide(store: Store, request: Document, issue: Issue, now: datetime) -> None:
    name = request["metadata"]["name"]
    status = request.get("status") or {}
    types = {each["type"]: each for each in status.get("conditions") or () if _is_true(each)}
    if _is_old(request, types, now):
        store.delete(REQUESTS, "", name)
    elif not types:
        _approve(store, request)
    elif "Approved" in types and "Failed" not in types and not status.get("certificate"):
        _sign(store, request, issue, now)


def _is_true(condition: Document) -> bool:
    return bool(condition.get("status") == "True")


def _is_old(request: Document, types: dict[str, Document], now: datetime) -> bool:
    """True if a request was decided, or made and not decided, a long time ago."""
    issued = bool((request.get("status") or {}).get("certificate"))
    if not types:
        made = request["metadata"]["creationTimestamp"]
        return now - datetime.fromisoformat(made) > UNDECIDED_PATIENCE
    for type_ in _DECISIONS:
        since = types.get(type_, {}).get("lastUpdateTime")
        most = UNDECIDED_PATIENCE if type_ == "Approved" and not issued else PATIENCE
        if since and now - datetime.fromisoformat(since) > most:
            return True
    return False


def _approve(store: Store, request: Document) -> None:
    """Approves the request of a node, if its user has the right for it."""
    from .certificate_signer import approval_rights

    spec = request["spec"]
    user = Requester(spec.get("username", ""), groups=spec.get("groups") or ())
    for subresource, message in approval_rights(request):
        act = Act("create", REQUESTS.group, REQUESTS.plural, subresource)
        if authorize(store, user, act).allowed:
            _condition(store, request, APPROVAL, "Approved", "AutoApproved", message)
            return


def _sign(store: Store, request: Document, issue: Issue, now: datetime) -> None:
    from .certificate_signer import refusal, signed

    why = refusal(request)
    if why:
        _condition(store, request, STATUS, "Failed", "SignerValidationFailure", why)
    elif why is not None:
        status = {**request["status"], "certificate": signed(request, issue, now)}
        after = {**request, "status": status}
        Api(store).update(REQUESTS, "", request["metadata"]["name"], after, STATUS)


def _condition(
    store: Store, request: Document, subresource: str, type_: str, reason: str, message: str
) -> None:
    status = request.get("status") or {}
    condition = {"type": type_, "status": "True", "reason": reason, "message": message}
    conditions = [*(status.get("conditions") or ()), condition]
    after = {**request, "status": {**status, "conditions": conditions}}
    Api(store).update(REQUESTS, "", request["metadata"]["name"], after, subresource)
