"""The table of steps in the documentation, made from the verbs of what-ifs, and the JSON Schema of
what-ifs.
"""

from __future__ import annotations

import json

from berth.tools.answers.whatif.answer_worker import schema
from berth.tools.answers.whatif.verbs import VERBS
from tests.docs.blocks import ROOT, WHATIF

SCHEMA = ROOT / "docs/whatif-schema.json"

FIRST = "| step | what it does |\n| --- | --- |\n"


def table() -> str:
    rows = (f"| `{verb.form}` | {verb.help} |\n" for verb in VERBS.values())
    return f"{FIRST}{''.join(rows)}\n"


def refresh() -> None:
    before, _, rest = WHATIF.read_text().partition(FIRST)
    WHATIF.write_text(f"{before}{table()}{rest.partition(chr(10) * 2)[2]}")
    SCHEMA.write_text(f"{json.dumps(schema(), indent=2)}\n")
