"""Objects of custom kinds, as the garbage collector sees them: their metadata."""

from __future__ import annotations

from typing import cast

import msgspec

from berth.actors.scheduling.kube.meta import HasMetadata, Object, ObjectMeta

from ..api.types.api_documents import Document
from ..api.types.resources import Kind


class CustomObjects(msgspec.Struct, frozen=True):
    """A custom kind, and the type of its objects. The name of both is that of the kind with its
    group, such as `Shirt.shop.example.com`.
    """

    kind: Kind
    type: type[HasMetadata]

    @property
    def name(self) -> str:
        return self.type.__name__


def custom_objects(definition: Document) -> CustomObjects | None:
    """Returns the kind that a definition serves; None if it serves none."""
    status = definition.get("status") or {}
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    spec, names = definition["spec"], status.get("acceptedNames") or {}
    served = [version["name"] for version in spec["versions"] if version.get("served")]
    if conditions.get("Established") != "True" or not served:
        return None
    is_namespaced = spec["scope"] == "Namespaced"
    kind = Kind(spec["group"], served[0], names["plural"], names["kind"], is_namespaced)
    type_ = msgspec.defstruct(
        f"{kind.kind}.{kind.group}",
        [("metadata", ObjectMeta, ObjectMeta())],
        bases=(Object,),
        frozen=True,
        kw_only=True,
    )
    return CustomObjects(kind, cast("type[HasMetadata]", type_))
