"""A served cluster beside packages that other people have installed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import ContextVar
from types import SimpleNamespace
from urllib.request import Request, urlopen

import msgspec
import pytest

from berth.testing import ServedCluster, pod


class _NoLibraryError(RuntimeError):
    pass


def _library() -> str:
    """Answers as sniffio does, which other packages bring: asyncio is there in a task alone."""
    if (named := _NAMED.get()) is not None:
        return named
    with suppress(RuntimeError):
        if asyncio.current_task() is not None:
            return "asyncio"
    raise _NoLibraryError


_NAMED: ContextVar[str | None] = ContextVar("_NAMED", default=None)


def test_a_served_cluster_takes_the_first_object_of_a_kind_where_sniffio_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sniffio = SimpleNamespace(
        current_async_library=_library,
        current_async_library_cvar=_NAMED,
        AsyncLibraryNotFoundError=_NoLibraryError,
    )
    monkeypatch.setattr("anyio._core._eventloop.sniffio", sniffio)
    with ServedCluster(nodes=1) as served:
        body = msgspec.json.encode(pod("a"))
        headers = {"Content-Type": "application/json"}
        url = f"{served.url}/api/v1/namespaces/default/pods"
        with urlopen(Request(url, body, headers)) as answer:
            assert answer.status == 201
        served.call(lambda cluster: cluster.until(cluster.pod("a").running))
