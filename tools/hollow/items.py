"""What a controller looks at: one object, by the name of the controller and the object's place."""

from __future__ import annotations

import msgspec

from berth.actors.scheduling.kube.meta import HasMetadata


class Item(msgspec.Struct, frozen=True):
    """One object to look at. A workload's controller has the name of its kind."""

    controller: str
    kind: str
    namespace: str
    name: str


def item_of(controller: str, obj: HasMetadata) -> Item:
    return Item(controller, type(obj).__name__, obj.metadata.namespace, obj.metadata.name)
