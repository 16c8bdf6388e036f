"""A sweep that is stopped at any moment goes on to the same results."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from berth.tools.answers.whatif.sweep.cell import CellResult, CellWaiting
from berth.tools.answers.whatif.sweep.results_file import Header, open_results
from tests.kit.examples import examples

TEXTS = ("", "small", "two\nlines", "\u2028 ü")
RESULTS = [
    CellResult(
        cell, {text: cell}, text, 0, 0.1 * cell, 1, 2, 3, 4, 5, [CellWaiting(text, cell, text)]
    )
    for cell, text in enumerate(TEXTS)
]
HEADER = Header("0123abcd", len(RESULTS))


@given(every=st.permutations(RESULTS), cuts=st.lists(st.floats(0, 1), max_size=3))
@examples(1.0)
def test_any_prefix_of_the_file_leads_to_the_same_results(
    every: list[CellResult], cuts: list[float]
) -> None:
    whole = {result.cell: result for result in every}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.jsonl"
        with open_results(path, HEADER) as file:
            for result in every:
                file.append(result)
        complete = path.read_bytes()
        for cut in cuts:
            content = path.read_bytes()
            end = round(cut * len(content))
            path.write_bytes(content[:end])
            with open_results(path, HEADER) as file:
                lines = content[:end].count(b"\n")
                assert len(file.by_cell) == max(lines - 1, 0)  # No whole line is done again.
                for result in every:
                    if result.cell not in file.by_cell:
                        file.append(result)
                assert file.by_cell == whole
        with open_results(path, HEADER) as file:
            assert file.by_cell == whole
        assert sorted(path.read_bytes().split(b"\n")) == sorted(complete.split(b"\n"))
