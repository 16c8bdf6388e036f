"""A reader of the log that hangs, or is gone, holds up nobody; the lines that it misses count."""

from __future__ import annotations

import fcntl
import os
import re
import threading
from collections.abc import Iterator

import pytest

from berth.actors.telemetry.line_writer import MOST_BYTES, LineWriter
from tests.kit.logs import capture_logs

LINE = "x" * 9_999
CAPACITY = 1 << 16  # of a pipe


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    inlet, outlet = os.pipe()
    fcntl.fcntl(outlet, fcntl.F_SETPIPE_SZ, CAPACITY)
    yield inlet, outlet
    os.close(outlet)


def read_all(inlet: int, received: list[bytes]) -> None:
    while data := os.read(inlet, 1 << 20):
        received.append(data)


def end(inlet: int, outlet: int, reader: threading.Thread) -> None:
    """Lets the reader read to the end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, outlet)
    os.close(null)
    reader.join()
    os.close(inlet)


def fill(writer: LineWriter) -> int:
    """Writes lines until the first is dropped; returns the number of the others."""
    number = 0
    while not writer.dropped:
        writer.write(LINE)
        number += 1
        assert number * len(LINE) <= 3 * MOST_BYTES
    return number - 1


def test_lines_arrive_in_order(pipe: tuple[int, int]) -> None:
    inlet, outlet = pipe
    writer = LineWriter(outlet, "ascii")
    for number in range(1_000):
        writer.write(f"{number} \u20ac")
    writer.flush(5.0)
    received = os.read(inlet, CAPACITY).decode()
    os.close(inlet)
    assert received.splitlines() == [f"{number} \\u20ac" for number in range(1_000)]


@pytest.mark.parametrize("blocking", [True, False])
def test_a_reader_that_hangs_misses_lines_and_is_told_so(
    pipe: tuple[int, int], blocking: bool
) -> None:
    inlet, outlet = pipe
    os.set_blocking(outlet, blocking)
    writer = LineWriter(outlet)
    written = fill(writer)
    assert MOST_BYTES - len(LINE) <= written * len(LINE)
    writer.write(LINE)
    writer.flush(0.01)  # does not wait for the reader
    received: list[bytes] = []
    reader = threading.Thread(target=read_all, args=(inlet, received))
    with capture_logs() as logged:
        reader.start()
        writer.flush(5.0)
    end(inlet, outlet, reader)
    assert b"".join(received).decode().splitlines() == [LINE] * written
    assert [(line["event"], line["lines"]) for line in logged] == [("log lines dropped", 2)]
    assert writer.dropped == 2


def test_lines_that_cannot_be_written_count(pipe: tuple[int, int]) -> None:
    inlet, outlet = pipe
    os.close(inlet)
    writer = LineWriter(outlet)
    writer.write("one")
    writer.flush(5.0)
    assert writer.dropped == 1


def test_a_long_line_is_not_dropped_for_its_length_alone(pipe: tuple[int, int]) -> None:
    inlet, outlet = pipe
    received: list[bytes] = []
    reader = threading.Thread(target=read_all, args=(inlet, received))
    reader.start()
    writer = LineWriter(outlet)
    writer.write("y" * 2 * MOST_BYTES)
    writer.flush(5.0)
    end(inlet, outlet, reader)
    assert (len(b"".join(received)), writer.dropped) == (2 * MOST_BYTES + 1, 0)
    assert re.fullmatch(b"y+\n", b"".join(received))
