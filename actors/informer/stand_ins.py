"""Stand-ins: objects that count in place of objects that cannot be read. Pure.

A stand-in is the object as it was last read, together with anything that is certain about its
present state. For an object that was never read it is the readable part, if that can do no harm.
Unless it is the object exactly as last read, a stand-in has no resourceVersion, so it never equals
a state that the API server lists.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from ..scheduling.kube.core import Node, Pod
from ..scheduling.kube.meta import HasMetadata
from ..scheduling.model.stale_node import StaleNode

T = TypeVar("T", bound=HasMetadata)


def last_or_part(last: T | None, part: T) -> T:
    """Returns the last readable state of the object; without one, its readable part. Plugins look
    it up.
    """
    return last if last is not None else _unversioned(part)


def node_without_new_pods(last: Node | None, _rest: Node) -> Node | None:
    """Returns the last readable state of the node, which takes no new pods; None if it was never
    read.
    """
    if last is None:
        return None
    fields = {name: getattr(last, name) for name in Node.__struct_fields__}
    return _unversioned(StaleNode(**fields))


def pod_with_its_room(last: Pod | None, part: Pod) -> Pod | None:
    """Returns the last readable state of the pod, or its readable part, so that the pod keeps its
    room on its node.

    None for a pending pod, which is not scheduled. A pod that was given a node meanwhile is on that
    node from then on. None for a pod whose name, namespace or uid cannot be read, if it was never
    read before.
    """
    if last is None and not (part.metadata.name and part.metadata.namespace and part.metadata.uid):
        return None
    pod = last if last is not None else _unversioned(part)
    if not pod.spec.node_name and part.spec.node_name:
        spec = msgspec.structs.replace(pod.spec, node_name=part.spec.node_name)
        pod = _unversioned(msgspec.structs.replace(pod, spec=spec))
    return pod if pod.spec.node_name else None


def _unversioned(item: T) -> T:
    changed: Any = item
    metadata = msgspec.structs.replace(item.metadata, resource_version="")
    unversioned: T = msgspec.structs.replace(changed, metadata=metadata)
    return unversioned
