"""The file of a sweep's results."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.tools.answers.explain.cluster_source import SourceError
from berth.tools.answers.whatif.sweep.cell import CellResult
from berth.tools.answers.whatif.sweep.results_file import Header, open_results

HEADER = Header("abc", 2)
RESULT = CellResult(0, {"small": 1}, "default", 0, 0.1, 1, 50, 50, 1, 0, [])


def test_a_second_sweep_does_not_write_to_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with (
        open_results(path, HEADER),
        pytest.raises(SourceError, match="another sweep writes to it"),
        open_results(path, HEADER),
    ):
        pass


@pytest.mark.parametrize(
    "content",
    [b"notes", b"notes\n", b"\n", b'{"sweep":"other","cells":2}\n', b'{"sweep":"abc","cells":22'],
)
def test_another_file_is_refused_and_not_changed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(content)
    with pytest.raises(SourceError, match="it is of another sweep"), open_results(path, HEADER):
        pass
    assert path.read_bytes() == content


def test_a_damaged_line_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with open_results(path, HEADER) as results:
        results.append(RESULT)
    path.write_bytes(path.read_bytes() + b"{}\n")
    with pytest.raises(SourceError, match="line 3: "), open_results(path, HEADER):
        pass


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none" / "r.jsonl"
    with pytest.raises(SourceError, match="No such file"), open_results(path, HEADER):
        pass
