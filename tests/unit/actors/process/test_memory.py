"""The memory of the process: its limit, and the end shortly before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.actors.process import memory
from berth.actors.process.memory import (
    EVERY_SECONDS,
    NO_LIMIT,
    Memory,
    MemoryUsedUpError,
    limit,
    used,
)
from tests.kit.clock import VirtualClock
from tests.kit.tasks import beside, started

MIB = 1 << 20
V1 = "9:name=systemd:/\n4:memory:{}\n0::/\n"
V2 = "0::{}\n"


def limit_of(folder: Path, own: str, files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> int:
    (folder / "own").write_text(own)
    for path, text in files.items():
        file = folder / "groups" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(memory, "OWN_GROUPS", folder / "own")
    monkeypatch.setattr(memory, "GROUPS", folder / "groups")
    return limit()


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        (V2.format("/"), {"memory.max": "2147483648\n"}, 2048 * MIB),
        (V2.format("/pod/app"), {"pod/app/memory.max": "max\n", "pod/memory.max": "4096\n"}, 4096),
        (V2.format("/pod/app"), {"pod/app/memory.max": "1\n", "pod/memory.max": "4096\n"}, 1),
        (V2.format("/"), {"memory.max": "max\n"}, NO_LIMIT),
        (V2.format("/"), {}, NO_LIMIT),  # the root of a host has no such file
        (V2.format("/"), {"memory.max": "0\n"}, NO_LIMIT),
        (V1.format("/a"), {"memory/a/memory.limit_in_bytes": "4096\n"}, 4096),
        # A container that sees its own group as the root, and its path on the host.
        (V1.format("/docker/1f"), {"memory/memory.limit_in_bytes": "4096\n"}, 4096),
        (V1.format("/"), {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, NO_LIMIT),
    ],
)
def test_the_limit_is_the_least_of_the_control_groups(
    own: str,
    files: dict[str, str],
    expected: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert limit_of(tmp_path, own, files, monkeypatch) == expected


def test_a_machine_without_control_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "OWN_GROUPS", tmp_path / "none")
    monkeypatch.setattr(memory, "STATUS", tmp_path / "none")
    assert (limit(), used()) == (NO_LIMIT, 0)


def test_this_process_uses_memory() -> None:
    assert 10 * MIB < used() < 100_000 * MIB


@pytest.mark.parametrize(("allowed", "most"), [(1000, 950), (200, 168)])
async def test_the_end_comes_shortly_before_the_limit(allowed: int, most: int) -> None:
    clock, bytes_used = VirtualClock(), [(most - 1) * MIB]
    ends: list[tuple[float, str]] = []

    async def watched() -> None:
        with pytest.raises(MemoryUsedUpError) as end:
            await Memory(clock, allowed * MIB, lambda: bytes_used[0]).run()
        ends.append((clock.now(), str(end.value)))

    async with beside(watched):
        await clock.advance(100 * EVERY_SECONDS)
        bytes_used[0] = most * MIB
        await clock.advance(EVERY_SECONDS)
    ((when, why),) = ends
    assert when == 101 * EVERY_SECONDS
    assert why.startswith(f"{most} MiB of the container's limit of {allowed} MiB are in use")


async def test_without_a_limit_nothing_is_watched() -> None:
    clock = VirtualClock()
    async with started(Memory(clock, NO_LIMIT, lambda: NO_LIMIT).run):
        await clock.advance(100 * EVERY_SECONDS)
