"""metav1: the metadata of every Kubernetes object, label selectors, and the API server's Status."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Annotated, Any, Protocol

import msgspec

# Integers outside the bounds of the API's types cannot be read, as in Go.
Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Object(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    """The base of every struct of the API: camelCase on the wire, fields with defaults left out.

    Subclasses inherit these options; only `frozen` (for mypy) and `kw_only` have to be repeated.
    Everybody reads the same objects, plugins too: a field that is a Mapping is a read-only view of
    the dict that was decoded. `own` reads the dict itself.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for field, annotation in cls.__annotations__.items():
            if str(annotation).startswith("Mapping["):
                setattr(cls, f"_own_{field}", cls.__dict__[field])
                setattr(cls, field, property(_read_only(cls.__dict__[field].__get__)))


def _read_only(get: Callable[[Object], dict[str, Any]]) -> Callable[[Object], Mapping[str, Any]]:
    view = MappingProxyType
    return lambda obj: view(get(obj))


def own(kind: type[msgspec.Struct], *fields: str) -> Callable[[Any], Any]:
    """Returns a function that reads these fields at once, as dicts and not as views of them.

    It is for callers that compare or encode many objects, and write to none.
    """
    return attrgetter(*(f"_own_{f}" if hasattr(kind, f"_own_{f}") else f for f in fields))


class OwnerReference(Object, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Object, frozen=True, kw_only=True):
    """The metadata of an object. Times are RFC 3339 text, as the API server writes them."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class ObjectReference(Object, frozen=True):
    """A reference to an object at a version, for example the object of an event."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class ListMeta(Object, frozen=True, kw_only=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: Int64 | None = None


class LabelSelectorRequirement(Object, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Object, frozen=True, kw_only=True):
    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Status(Object, frozen=True, kw_only=True):
    """The API server's answer to a request that returns no object, such as one that failed."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: Int32 = 0


class WholeObject(Object, frozen=True, kw_only=True):
    """The base of the kinds. All other structs are parts of their objects."""

    metadata: ObjectMeta = ObjectMeta()


class SchedulersOwn(WholeObject, frozen=True, kw_only=True):
    """The base of objects that only the scheduler has. The API server has no such kind."""


class HasMetadata(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


def version_of(obj: HasMetadata) -> int:
    """Returns the resource version, an increasing number in Kubernetes; 0 for anything else."""
    return version_number(obj.metadata.resource_version)


def version_number(text: str) -> int:
    """Returns a resource version as a number; 0 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 0


def key(obj: HasMetadata) -> str:
    """Returns `namespace/name`, or the name alone for an object without a namespace."""
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
