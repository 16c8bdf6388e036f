"""Requests that take long: they are worked on in a thread, or in pieces, so that the loop goes on
answering others.

A long write is tried on a fork of the store. What it wrote there is then written to the store,
unless somebody wrote one of these objects meanwhile: then it is tried again, as kube-apiserver does
after a conflict in etcd. As there, admission may have read other objects a moment too early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import NoReturn, TypeVar

import msgspec

from ...kubernetes.api.requests.accepted_forms import accepted_form
from ...kubernetes.api.requests.list_pages import ListPage
from ...kubernetes.api.requests.media_types import JSON, YAML
from ...kubernetes.api.requests.request import HttpRequest
from ...kubernetes.api.requests.request_targets import RequestTarget
from ...kubernetes.api.store import Store, StoreEvent
from ...kubernetes.api.types.api_documents import StoredObject
from ...kubernetes.api.types.resources import BY_KIND, Kind
from .answer_forms import Answer
from .handlers import Performed

LONG_BODY = 64 << 10  # bytes of a body, and of the object that a request is about
LONG_YAML = 16 << 10  # bytes of JSON that becomes YAML
LONG_LIST = 1000  # objects whose JSON is mostly there
LONG_FORMED = 100  # objects that get another form
MOST_TRIES = 4  # of a write beside the loop; the next one holds the loop
PIECE = 200  # objects that are deleted at once
NAMESPACES, SERVICES = BY_KIND["v1", "Namespace"], BY_KIND["v1", "Service"]
_T = TypeVar("_T")


def is_long_write(store: Store, request: HttpRequest, target: RequestTarget) -> bool:
    """True for a write of an object, or to one, that is large. Services are none: their addresses
    and ports are given out in view of all other services, so nobody may come between.
    """
    if request.method == "GET" or target.kind is SERVICES:
        return False
    if len(request.body) > LONG_BODY:
        return True
    there = store.lookup(target.kind, target.namespace, target.name) if target.name else None
    return there is not None and there.known_length > LONG_BODY


def is_long_deletion(store: Store, request: HttpRequest, target: RequestTarget) -> bool:
    """True for the deletion of a large collection."""
    return request.method == "DELETE" and not target.name and store.count(target.kind) > PIECE


def is_long_answer(request: HttpRequest, answer: Answer) -> bool:
    """True for an answer whose form takes long to make."""
    form = accepted_form(request.headers.get("accept", ""))
    if isinstance(answer, ListPage):
        is_plain = form.media_type == JSON and not form.as_kind
        return len(answer.items) > (LONG_LIST if is_plain else LONG_FORMED)
    is_yaml = form.media_type == YAML and isinstance(answer, StoredObject)
    return is_yaml and isinstance(answer, StoredObject) and len(answer.raw) > LONG_YAML


class Trial:
    """A try of a write on a fork of a store."""

    def __init__(self, store: Store) -> None:
        self.store = store.fork(lambda kind, event: self._written.append((kind, event)))
        self._original = store
        self._catalog = store.catalog
        self._written: list[tuple[Kind, StoreEvent]] = []

    def is_served(self) -> bool:
        """True if the same kinds are served as when the try began."""
        return self._original.catalog is self._catalog

    def is_current(self) -> bool:
        """True if nobody wrote meanwhile what this write depends on."""
        are_same = self.is_served() and not self._namespaces_differ()
        return are_same and self._original.has_before(self._written)

    def keep(self, done: Callable[[], Performed]) -> Performed:
        """Writes to the store what was written to the fork. Returns what was `done` with the object
        as it is there.
        """
        performed = done()
        here = self._original.adopt(self.store, self._written)
        answer = performed.answer
        if not isinstance(answer, StoredObject):
            return performed
        return msgspec.structs.replace(performed, answer=here.get(answer.revision, answer))

    def _namespaces_differ(self) -> bool:
        """True if the namespace of an object that was written has changed, such as ended."""
        metadata = (event.after.document["metadata"] for _, event in self._written)
        names = {namespace for each in metadata if (namespace := each.get("namespace"))}
        stores = self._original, self.store
        here, there = ([each.lookup(NAMESPACES, "", n) for n in sorted(names)] for each in stores)
        return any(left is not right for left, right in zip(here, there, strict=True))


class Aside:
    """Runs the work of long requests in a thread, one at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[[], _T]) -> Callable[[], _T]:
        """Returns a function that returns what `work` returned, or raises what it raised."""
        async with self._turn:
            try:
                done = await asyncio.to_thread(work)
            except Exception as problem:  # noqa: BLE001  # raised again where it is answered
                return partial(_raise, problem)
        return lambda: done


def _raise(problem: Exception) -> NoReturn:
    raise problem


async def in_pieces(steps: Generator[None, None, _T], piece: int = PIECE) -> Callable[[], _T]:
    """Takes steps, and lets other requests in after so many. Returns a function that returns what
    the last one returned, or raises what one raised.
    """
    try:
        while True:
            for _ in range(piece):
                next(steps)
            await asyncio.sleep(0)
    except StopIteration as end:
        done: _T = end.value
        return lambda: done
    except Exception as problem:  # noqa: BLE001  # raised again where it is answered
        return partial(_raise, problem)
