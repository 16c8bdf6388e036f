"""The answers to lists and watches: pages, and lines with an object or a bookmark each."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from ..scheduling.kube.meta import ListMeta

T = TypeVar("T")
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Page(msgspec.Struct, frozen=True):
    """A page of a list whose objects are not decoded yet."""

    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] = ()


class Event(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A line of the watch with a readable object, decoded in one step. Most lines are like this."""

    type: str
    object: T


class Envelope(msgspec.Struct, frozen=True):
    """A line of the watch whose object is not decoded yet."""

    type: str
    object: msgspec.Raw


class _Identity(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class VersionedObject(msgspec.Struct, frozen=True, gc=False):
    """The part of an object that shows whether it has changed."""

    metadata: _Identity


class _OnlyVersion(msgspec.Struct, frozen=True, rename="camel", gc=False):
    resource_version: str = ""


class Version(msgspec.Struct, frozen=True, gc=False):
    """The part of an object or bookmark that says how far the watch has come. Objects of mock
    servers have no version.
    """

    metadata: _OnlyVersion


class _BookmarkMetadata(msgspec.Struct, frozen=True, gc=False):
    annotations: dict[str, str] | None = None


class _Marked(msgspec.Struct, frozen=True, gc=False):
    metadata: _BookmarkMetadata


class Bookmark(msgspec.Struct, frozen=True):
    """A bookmark; `ends_list` if it marks the end of a streamed list."""

    ends_list: bool


def is_end_of_list(bookmark: msgspec.Raw) -> bool:
    """True for the bookmark at the end of a streamed list. Raises UNREADABLE."""
    annotations = msgspec.json.decode(bookmark, type=_Marked).metadata.annotations
    return annotations is not None and annotations.get(INITIAL_EVENTS_END) == "true"
