"""Suggestions to remove a pod's nodeName, or to select that node instead, so that a scheduler
places the pod.
"""

from __future__ import annotations

from collections.abc import Iterator

from .affinity_change import REQUIRED
from .change import ProposedChange, Who
from .edit import Document, patch_of, put, removal
from .kind_of_change import Way
from .world import World

HOSTNAME = "kubernetes.io/hostname"


def changes(world: World) -> Iterator[ProposedChange]:
    named = world.pod["spec"].get("nodeName")
    if named:
        edit = patch_of(world.pod, removal("spec", "nodeName"))
        yield ProposedChange("nodeName", Who.OWNER, 0.3, f"Leave out nodeName: {named}", (edit,))
    node, pod = world.document("Node", world.pinned_to), world.pod
    if node is None:
        return
    value = (node["metadata"].get("labels") or {}).get(HOSTNAME, "")
    selector = {**(pod["spec"].get("nodeSelector") or {}), HOSTNAME: value}
    patch, what = put(selector, "spec", "nodeSelector"), f"nodeSelector {HOSTNAME}: {value}"
    if not value:
        field = {"key": "metadata.name", "operator": "In", "values": [world.pinned_to]}
        patch, what = (
            put(_required_field(field), "spec", "affinity"),
            f"node affinity to {world.pinned_to}",
        )
    sentence = f"Use a {what} instead of nodeName"
    yield ProposedChange("nodeName", Who.OWNER, 0.1, sentence, (patch_of(pod, patch),))


def _required_field(field: Document) -> Document:
    """Returns the node affinity that requires a field."""
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field]}]}}}


WAY = Way(changes)
