"""metav1: what every Kubernetes object carries."""

from __future__ import annotations

from typing import Annotated, Protocol

import msgspec

# Integers have the bounds of the API's types: what is beyond them cannot be read, as in Go.
Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class OwnerReference(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    """Times are RFC 3339 text, as the API server writes them."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class ObjectReference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Which object something is about, at which version."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class ListMeta(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: Int64 | None = None


class LabelSelectorRequirement(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Status(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    """The API server's answer when there is no object to answer with."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: Int32 = 0


class HasMetadata(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


def key(obj: HasMetadata) -> str:
    """`namespace/name`, or the name alone where there is no namespace."""
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
