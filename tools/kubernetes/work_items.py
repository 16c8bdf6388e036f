"""Items of work for controllers: one object each, by controller and by kind and name."""

from __future__ import annotations

import msgspec

from berth.actors.scheduling.kube.meta import HasMetadata


class Item(msgspec.Struct, frozen=True):
    """An object to decide on. The controller of a workload has the same name as its kind."""

    controller: str
    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def item_of(controller: str, obj: HasMetadata) -> Item:
    return Item(controller, type(obj).__name__, obj.metadata.namespace, obj.metadata.name)
