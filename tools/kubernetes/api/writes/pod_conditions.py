"""What the API server itself writes into a pod's status: conditions, and what a client left out."""

from __future__ import annotations

from ..types.api_documents import Document

_TIMES = ("lastProbeTime", "lastTransitionTime")


def with_condition(
    status: Document, kind: str, value: str, now: str, reason: str = "", message: str = ""
) -> Document:
    """Returns a pod's status with this condition, which replaces the condition of the same type.

    Its lastTransitionTime changes only if `value` (True or False) changes.
    """
    conditions: list[Document] = list(status.get("conditions") or ())
    place = next(
        (i for i, condition in enumerate(conditions) if condition["type"] == kind), len(conditions)
    )
    before = conditions[place : place + 1]
    since = (
        before[0].get("lastTransitionTime") if before and before[0].get("status") == value else None
    )
    condition: Document = {
        "type": kind,
        "status": value,
        "lastProbeTime": None,
        "lastTransitionTime": since or now,
    }
    condition |= {field: text for field, text in (("reason", reason), ("message", message)) if text}
    conditions[place : place + 1] = [condition]
    return {**status, "conditions": conditions}


def written_status(status: Document, before: Document) -> Document:
    """Returns a pod's status as it is stored: with the times of conditions that nobody told, with
    the lists of its addresses, and with the QoS class that it has had.
    """
    added: Document = {}
    for one, all_ in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        address, addresses = status.get(one), status.get(all_)
        if address and not addresses:
            added[all_] = [{"ip": address}]
        elif addresses and not address:
            added[one] = addresses[0].get("ip")
    if not status.get("qosClass") and before.get("qosClass"):
        added["qosClass"] = before["qosClass"]
    conditions = status.get("conditions") or ()
    if any(time not in each for each in conditions for time in _TIMES):
        added["conditions"] = [{**dict.fromkeys(_TIMES), **each} for each in conditions]
    return {**status, **added} if added else status
