"""The flight recorder's files: rotation, writers that were killed, and disks that fail."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import msgspec
import pytest

from berth.actors.attempt.flight_file import FILES, MOST_BYTES, FlightFile, page_of_files
from berth.actors.attempt.flights import KeptAttempt
from tests.kit.clock import VirtualClock
from tests.kit.logs import capture_logs

LINE_BYTES = 400  # of a short attempt, at most


def attempt(number: int, key: str = "ns/p", size: int = 1000) -> KeptAttempt:
    return KeptAttempt(size, key, "uid", "1", number, float(number), 0.1, 0.2, False, "error")


def opened(path: Path, most_bytes: int = 1 << 20) -> FlightFile:
    return FlightFile(str(path), most_bytes, VirtualClock())


def write(file: FlightFile, *attempts: KeptAttempt) -> None:
    for each in attempts:
        file.put(each)
    file.flush(5.0)


def numbers(path: Path, key: str = "ns/p") -> list[int]:
    return [each.number for each in page_of_files(str(path), key).attempts]


def test_a_writer_goes_on_at_the_end_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "attempts"
    write(opened(path), attempt(1), attempt(2, "ns/other"))
    write(opened(path), attempt(3))
    assert numbers(path) == [1, 3]
    assert all(msgspec.json.decode(line) for line in path.read_bytes().splitlines())


def test_the_oldest_file_goes(tmp_path: Path) -> None:
    path, most = tmp_path / "attempts", 20 * LINE_BYTES
    write(opened(path, most), *map(attempt, range(200)))
    kept = numbers(path)
    assert kept == [*range(kept[0], 200)]
    assert 20 <= len(kept) < 200
    sizes = [file.stat().st_size for file in tmp_path.iterdir()]
    assert len(sizes) == FILES
    assert max(sizes) <= most // FILES


def test_a_line_of_a_killed_writer_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "attempts"
    write(opened(path), attempt(1), attempt(2))
    os.truncate(path, path.stat().st_size - 20)
    assert numbers(path) == [1]
    write(opened(path), attempt(3))
    assert numbers(path) == [1, 3]


def test_a_path_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        opened(tmp_path / "nowhere" / "attempts")


def test_a_full_disk_is_logged_once_and_the_attempts_count() -> None:
    with capture_logs() as logged:
        file = opened(Path("/dev/full"))
        write(file, attempt(1), attempt(2))
        write(file, attempt(3))
    assert file.dropped == 3
    (line,) = logged
    assert (line["event"], line["error"]) == ("attempts not recorded", "No space left on device")


def test_a_disk_that_hangs_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, going_on, hangs = tmp_path / "attempts", threading.Event(), threading.Event()
    plain = os.write

    def hang(descriptor: int, data: bytes) -> int:
        hangs.set()
        going_on.wait(5.0)
        return plain(descriptor, data)

    monkeypatch.setattr(os, "write", hang)
    file = opened(path)
    file.put(attempt(0))
    assert hangs.wait(5.0)
    for number in range(1, 7):
        file.put(attempt(number, size=MOST_BYTES // 4))
    file.flush(0.0)
    assert file.dropped == 2
    with capture_logs() as logged:
        going_on.set()
        file.flush(5.0)
    assert numbers(path) == [0, 1, 2, 3, 4]
    assert [(line["event"], line["attempts"]) for line in logged] == [
        ("recorded attempts dropped", 2)
    ]


def test_a_file_of_something_else_has_no_attempts(tmp_path: Path) -> None:
    path = tmp_path / "attempts"
    path.write_text("hello\n{}\n")
    with pytest.raises(ValueError, match="there are none"):
        page_of_files(str(path), "ns/p")
