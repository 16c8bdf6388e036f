"""The event loop that a cluster lives in: who may await it, and how another thread asks it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import wait
from functools import partial, wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

C = TypeVar("C", bound="_HasLoop")
P = ParamSpec("P")
T = TypeVar("T")
LOOK_SECONDS = 1.0  # between two looks at whether the loop that is asked still runs


class OwnLoop:
    """The loop that runs now, in the thread that runs it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()

    def check(self) -> None:
        """Raises RuntimeError in a coroutine of another loop, in which a cluster's time would never
        pass.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                "this cluster lives in another event loop. The fixture `cluster` can be awaited in"
                " coroutines of pytest alone, tests and fixtures, and not in an"
                " IsolatedAsyncioTestCase: use `async with Cluster(...)` there. What a"
                " ServedCluster does is asked by `apiserver.call(...)`"
            )

    def ask(self, question: Callable[[], T]) -> T:
        """Returns the answer to a question. In another thread the loop answers it, as what it reads
        changes meanwhile.
        """
        if threading.get_ident() == self._thread or not self._loop.is_running():
            return question()

        async def answer() -> T:
            return question()

        answered = asyncio.run_coroutine_threadsafe(answer(), self._loop)
        while not wait((answered,), LOOK_SECONDS).done:
            if not self._loop.is_running():
                return question()
        return answered.result()


class _HasLoop(Protocol):
    own_loop: OwnLoop


def asked_anywhere(ask: Callable[Concatenate[C, P], T]) -> Callable[Concatenate[C, P], T]:
    """Makes a method one that any thread may call."""

    @wraps(ask)
    def asked(cluster: C, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return cluster.own_loop.ask(partial(ask, cluster, *args, **kwargs))

    return asked
