"""How a demo ends at a signal."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import anyio
import pytest

from berth.tools.testing.demo import command


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("keep", [False, True])
async def test_only_a_kept_cluster_ignores_ctrl_c_while_its_end_is_printed(keep: bool) -> None:
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            await group.start(command._stop_on_signal, group, keep)
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) == (
        signal.SIG_IGN if keep else signal.default_int_handler
    )
