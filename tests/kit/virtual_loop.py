"""Tests that run in virtual time, with sockets between their parts."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

import pytest

from berth.tools.testing.virtual_time import VirtualLoop

P = ParamSpec("P")


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs a test in a VirtualLoop. The test must have no asynchronous fixtures."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


def in_long_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs a test in a VirtualLoop that the quick tier leaves out, because its story is long."""
    return pytest.mark.full("long")(in_virtual_time(test))
