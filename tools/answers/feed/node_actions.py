"""What the page's buttons do to the nodes of a toy cluster: requests, as those of kubectl."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from berth.actors.client.access import Calls
from berth.actors.client.rest import CONTENT_TYPES, ApiError

from ...kubernetes.api.types.resources import BY_KIND
from ...kubernetes.api.writes.evictions import stays_in_drain

NODES, PODS = BY_KIND["v1", "Node"], BY_KIND["v1", "Pod"].path()
TOO_MANY_REQUESTS = 429  # A disruption budget holds the pod.
VERBS = ("cordon", "uncordon", "drain", "delete")


async def act(access: Calls, verb: str, node: str) -> str:
    """Performs one of VERBS on a node, and returns a sentence about it. Raises ApiError."""
    path = f"{NODES.path()}/{quote(node, safe='')}"
    if verb == "delete":
        await access.call("DELETE", path, dict)
        return f"{node} is deleted."
    cordoned = verb != "uncordon"
    patch = {"spec": {"unschedulable": cordoned or None}}
    await access.call("PATCH", path, dict, patch, CONTENT_TYPES["merge"])
    if verb == "drain":
        return await _evict_all(access, node)
    return f"{node} is cordoned." if cordoned else f"{node} takes pods again."


async def _evict_all(access: Calls, node: str) -> str:
    """Requests the eviction of each pod of a node once, but not of those that would come back to
    it.
    """
    listed = await access.call("GET", f"{PODS}?fieldSelector=spec.nodeName={quote(node)}", dict)
    evicted = held = 0
    for pod in listed["items"]:
        if stays_in_drain(pod):
            continue
        try:
            await _evict(access, pod["metadata"])
            evicted += 1
        except ApiError as refused:
            if refused.code != TOO_MANY_REQUESTS:
                raise
            held += 1
    sentence = f"{node} is cordoned, {evicted} of its pods are evicted."
    return (
        f"{sentence} Disruption budgets hold {held} more: drain it again later."
        if held
        else sentence
    )


async def _evict(access: Calls, metadata: dict[str, Any]) -> None:
    namespace, name = metadata["namespace"], metadata["name"]
    path = f"{BY_KIND['v1', 'Pod'].path(namespace)}/{quote(name, safe='')}/eviction"
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": name},
    }
    try:
        await access.call("POST", path, dict, eviction)
    except ApiError as refused:
        if refused.code != 404:  # It is gone.
            raise
