"""What counts in place of an object that cannot be read. Pure.

It is what was last read of the object, with what is certain in spite of all. Of an object that was
never read it is what can be read, where that can do no harm. A stand-in has no resourceVersion,
unless it is the object as last read: no state that the API server lists is the same.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.model.unsure_node import UnsureNode

T = TypeVar("T", bound=HasMetadata)


def last_or_rest(last: T | None, rest: T) -> T:
    """Of what plugins look up: as it was, or what can be read of it."""
    return last if last is not None else _unversioned(rest)


def node_without_new_pods(last: Node | None, _rest: Node) -> Node | None:
    """A node that takes no new pods; one that was never read is not there."""
    if last is None:
        return None
    fields = {name: getattr(last, name) for name in last.__struct_fields__}
    return _unversioned(UnsureNode(**fields))


def pod_with_its_room(last: Pod | None, rest: Pod) -> Pod | None:
    """A pod on a node keeps its room, or what can be read of it. A pending one is not there: it is
    not scheduled.

    A node that it has been given meanwhile is its node for good. One of which nobody can tell which
    it is is not there.
    """
    if last is None and not (rest.metadata.name and rest.metadata.namespace and rest.metadata.uid):
        return None
    pod = last if last is not None else _unversioned(rest)
    if not pod.spec.node_name and rest.spec.node_name:
        spec = msgspec.structs.replace(pod.spec, node_name=rest.spec.node_name)
        pod = _unversioned(msgspec.structs.replace(pod, spec=spec))
    return pod if pod.spec.node_name else None


def _unversioned(item: T) -> T:
    changed: Any = item
    metadata = msgspec.structs.replace(item.metadata, resource_version="")
    found: T = msgspec.structs.replace(changed, metadata=metadata)
    return found
