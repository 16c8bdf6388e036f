"""Rights to the status of device claims.

A user needs the right to the status as a whole, and rights to the parts that change. For the
allocation that is resourceclaims/binding in the whole cluster; for the state of devices it is
resourceclaims/driver for each driver. A service account of a pod may have the latter for the
devices of its node alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..rules.fields import forbidden as forbidden_field
from ..store import Store
from ..types.api_documents import Document
from .rights import Act, authorize, forbidden
from .users import NODE_NAME, Requester, account_of

_GROUP, _CLAIMS = "resource.k8s.io", "resourceclaims"
_PARTS = ("allocation", "reservedFor")


def status_problems(
    store: Store, user: Requester, verb: str, after: Document, before: Document
) -> list[str]:
    """Returns the changes of a claim's status for which the user lacks the right. `verb` is update
    or patch.
    """
    status, old = after.get("status") or {}, before.get("status") or {}
    problems = []
    if any((status.get(part) or None) != (old.get(part) or None) for part in _PARTS):
        problems += _binding(store, user, verb)
    if status.get("allocation"):
        namespace = after["metadata"]["namespace"]
        problems += _drivers(store, user, verb, namespace, status, old)
    return problems


def _binding(store: Store, user: Requester, verb: str) -> list[str]:
    refusal = _refusal(store, user, [Act(verb, _GROUP, _CLAIMS, "binding")])
    if not refusal:
        return []
    why = (
        "changing status.allocation or status.reservedFor requires "
        f'resource="resourceclaims/binding", verb="{verb}" permission: {refusal}'
    )
    return [forbidden_field("status.allocation", why)]


def _drivers(
    store: Store, user: Requester, verb: str, namespace: str, status: Document, old: Document
) -> Iterator[str]:
    verbs = [f"arbitrary-node:{verb}"]
    if _is_on_node(user, _node(status["allocation"])):
        verbs.insert(0, f"associated-node:{verb}")
    for driver in _changed_drivers(status, old):
        acts = [Act(each, _GROUP, _CLAIMS, "driver", namespace, driver) for each in verbs]
        refusal = _refusal(store, user, acts)
        if refusal:
            why = (
                'changing status.devices requires resource="resourceclaims/driver", '
                f'verb="[{" ".join(verbs)}]" permission: {refusal}'
            )
            yield forbidden_field("status.devices", why)


def _refusal(store: Store, user: Requester, acts: list[Act]) -> str:
    """Returns why the user may do none of these acts; "" if one is allowed."""
    verdicts = [authorize(store, user, act) for act in acts]
    if any(verdict.allowed for verdict in verdicts):
        return ""
    return str(forbidden(user, acts[0], verdicts[0].reason))


def _changed_drivers(status: Document, old: Document) -> list[str]:
    """Returns the drivers of devices whose state was added, changed or removed."""
    after, before = _by_device(status), _by_device(old)
    changed = [
        device for device in after.keys() | before.keys() if after.get(device) != before.get(device)
    ]
    return sorted({device[0] for device in changed})


def _by_device(status: Document) -> dict[tuple[Any, ...], Document]:
    fields = ("driver", "pool", "device", "shareID")
    return {
        tuple(device.get(field) or "" for field in fields): device
        for device in status.get("devices") or ()
    }


def _node(allocation: Document) -> str:
    """Returns the name of the only node that can use an allocation; "" if others can too."""
    match (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms"):
        case [
            {
                "matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": [str() as name]}
                ],
                **others,
            }
        ] if not any(others.values()):
            return name
        case _:
            return ""


def _is_on_node(user: Requester, node: str) -> bool:
    """True if the user is a service account of a pod on this node."""
    return bool(node) and account_of(user.name) is not None and _nodes(user) == [node]


def _nodes(user: Requester) -> list[str]:
    return list(user.extra.get(NODE_NAME) or ())
