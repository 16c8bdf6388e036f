"""The nominations of pending pods: the node on which the cache keeps room for a pod. Pure.

Only the queue knows which pods are nominated, so every change of a nomination goes through here to
the cache. As in kube-scheduler 1.36, a pod that comes with a nomination is nominated once it is
active, or when it is updated: as long as PreEnqueue rejects it and nothing changes, no room is kept
for it. From 1.37 on it is nominated when it comes (the rule `nominates_gated`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..messages.cache import Nominate, Unnominate
from ..messages.queue import ClusterChanged
from ..scheduling.framework.events import ASSIGNED_POD_DELETE
from ..scheduling.kube.core import Pod
from .entry import Entry


def nominate(entry: Entry, node: str) -> Sequence[Nominate | Unnominate]:
    """Makes the cache count the pod on a node; "" ends that."""
    before, entry.nominated_node = entry.nominated_node, node
    if node:
        return (Nominate(entry.info, node),)
    return (Unnominate(entry.key, entry.info.uid),) if before else ()


def nomination_after(entry: Entry, old: Pod, new: Pod) -> str:
    """Returns the node in the status if it changed or no attempt has decided yet, otherwise our own
    last decision, which may not be written to the status yet.
    """
    before, after = old.status.nominated_node_name, new.status.nominated_node_name
    return entry.nominated_node if entry.attempts and before == after else after


def end_of_nomination(entry: Entry) -> ClusterChanged:
    """Returns the event at the end of a nomination, which frees room as a deletion of the pod
    would.

    The event helps the pod itself, and pods of at most its priority, which had to leave it the
    room.
    """
    pod = entry.info.pod
    status = msgspec.structs.replace(pod.status, nominated_node_name=entry.nominated_node)
    was = msgspec.structs.replace(pod, status=status)
    return ClusterChanged(ASSIGNED_POD_DELETE, was, None, entry.info.priority)
