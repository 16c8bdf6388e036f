"""The page on the API server shows what came of other people's suites as it is listed."""

from __future__ import annotations

from tests.docs import suite_table


def test_the_table_of_suites_is_the_list() -> None:
    assert suite_table.table() in suite_table.PAGE.read_text(), "run python -m tests.docs.refresh"
