"""The scheduler's report on its last attempt at a pod, which a decision here cannot foresee."""

from __future__ import annotations

import re
from typing import Any

Document = dict[str, Any]
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
