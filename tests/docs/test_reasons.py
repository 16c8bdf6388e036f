"""The page on the codes of reasons is that of the program."""

from __future__ import annotations

import json

from tests.docs import reason_table

REFRESH = "run python -m tests.docs.refresh"


def test_the_table_of_reasons_is_that_of_the_program() -> None:
    assert reason_table.table() in reason_table.PAGE.read_text(), REFRESH


def test_the_schema_of_the_answers_is_that_of_the_program() -> None:
    assert json.loads(reason_table.SCHEMA.read_text()) == reason_table.schema(), REFRESH
