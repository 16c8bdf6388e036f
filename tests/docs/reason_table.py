"""The table of reasons in the documentation, and the JSON Schema of the answers that have them."""

from __future__ import annotations

import json
from typing import Any

from berth.tools.answers.debug.why_answer import WhyAnswer
from berth.tools.answers.doctor.parked_pods import ParkedPods
from berth.tools.answers.explain.answer_schema import answer_schema
from berth.tools.answers.explain.explained_pod import ExplainedPod, ExplainedPods, FailedAttempt
from berth.tools.answers.explain.reasons.reason_table import REASONS, ReasonRow
from tests.docs.blocks import ROOT

PAGE, SCHEMA = ROOT / "docs/reasons.md", ROOT / "docs/reasons-schema.json"
FIRST = "| code | given by | fields | meaning | text |\n| --- | --- | --- | --- | --- |\n"
ANSWERS = {
    "explain": ExplainedPod,
    "explain (failed)": FailedAttempt,
    "explain (all pods)": ExplainedPods,
    "why": WhyAnswer,
    "doctor": ParkedPods,
}


def table() -> str:
    return f"{FIRST}{''.join(map(_line, REASONS))}\n"


def _line(row: ReasonRow) -> str:
    fields = ", ".join(f"`{camel(field)}`" for field in row.fields)
    texts = "; ".join(f"`{text}`" for text in row.texts).replace("|", "\\|")
    return f"| `{row.code}` | {', '.join(row.plugins)} | {fields} | {row.meaning} | {texts} |\n"


def camel(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(map(str.capitalize, others))


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of the answers, by command."""
    return answer_schema("answers of berth with codes of reasons", ANSWERS)


def refresh() -> None:
    before, _, rest = PAGE.read_text().partition(FIRST)
    PAGE.write_text(f"{before}{table()}{rest.partition(chr(10) * 2)[2]}")
    SCHEMA.write_text(f"{json.dumps(schema(), indent=2)}\n")
