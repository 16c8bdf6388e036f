"""What a controller looks at: one object, by the name of the controller and the object's place."""

from __future__ import annotations

import msgspec

from .documents import Document, name_of, namespace_of


class Item(msgspec.Struct, frozen=True):
    """One object to look at. A workload's controller has the name of its kind."""

    controller: str
    kind: str
    namespace: str
    name: str


def item_of(controller: str, document: Document) -> Item:
    return Item(controller, document["kind"], namespace_of(document), name_of(document))
