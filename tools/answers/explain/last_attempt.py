"""The scheduler's report on its last attempt at a pod, which a decision here cannot foresee."""

from __future__ import annotations

import re
from typing import Any

from berth.actors.attempt.failure import BLOCKED_BY
from berth.actors.scheduling.kube.core import Pod

Document = dict[str, Any]
_BLOCKED = re.compile(rf"{BLOCKED_BY} ([^:]+): (.*)", re.DOTALL)
_NO_NODE = re.compile(r"\d+/\d+ nodes are available")


def binding_failure(pod: Document) -> str:
    """Returns why the last attempt failed although there was a node, as a sentence without its
    subject; "" if it did not. A plugin may refuse the pod in PreBind or Bind.
    """
    for condition in (pod.get("status") or {}).get("conditions") or ():
        of = condition.get("type"), condition.get("status")
        message = condition.get("message") or ""
        if of != ("PodScheduled", "False") or condition.get("reason") == "SchedulingGated":
            continue
        if message and not _NO_NODE.match(message):
            said = f"was not bound by its last attempt, as its condition says: {message}"
            return f"{said} (PreBind and Bind are not tried here)"
    return ""


def blocking_plugin(pod: Pod) -> tuple[str, str] | None:
    """Returns the plugin that keeps the pod out of the queue of a running berth, and its reason, by
    the pod's condition; None if there is none.
    """
    for condition in pod.status.conditions:
        if (condition.type, condition.reason) == ("PodScheduled", "SchedulingGated"):
            blocked = _BLOCKED.fullmatch(condition.message)
            return (blocked[1], blocked[2]) if blocked else None
    return None
