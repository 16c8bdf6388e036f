"""The page on the codes of reasons is that of the program, and keeps what it promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from berth.tools.answers.explain.reasons.reason_table import REASONS
from tests.docs import reason_table

REFRESH = "run python -m tests.docs.refresh"
# Each field of a cause with its type, and each code with its fields, since it was released. Nothing
# writes this file but people: lines and words are added, and go only as docs/reasons.md says.
PROMISED = Path(__file__).parent / "promised_reasons.txt"


def test_the_table_of_reasons_is_that_of_the_program() -> None:
    assert reason_table.table() in reason_table.PAGE.read_text(), REFRESH


def test_the_schema_of_the_answers_is_that_of_the_program() -> None:
    assert json.loads(reason_table.SCHEMA.read_text()) == reason_table.schema(), REFRESH


def test_what_is_promised_of_codes_and_fields_stays() -> None:
    promised = {
        name: {*words} for name, *words in map(str.split, PROMISED.read_text().splitlines())
    }
    now = {row.code: {*map(reason_table.camel, row.fields)} for row in REASONS}
    structs = reason_table.schema()["$defs"]
    for name in ("Cause", "CauseTaint", "CauseRequirement", "CauseConstraint"):
        fields = structs[name]["properties"].items()
        now |= {f"{name}.{field}": {_type_of(shape)} for field, shape in fields}
    gone = [
        (name, word)
        for name, words in promised.items()
        for word in (words - now[name] if name in now else {"the whole"})
    ]
    assert not gone, "programs rely on these: see What stays in docs/reasons.md"
    assert now == promised, "what is new is promised: add it to promised_reasons.txt"


def _type_of(shape: dict[str, Any]) -> str:
    """Returns the type of a field of a JSON Schema in a word."""
    if "anyOf" in shape:
        return " or ".join(_type_of(each) for each in shape["anyOf"] if each != {"type": "null"})
    if "$ref" in shape:
        return str(shape["$ref"]).rpartition("/")[2]
    return f"{_type_of(shape['items'])}[]" if shape["type"] == "array" else str(shape["type"])
