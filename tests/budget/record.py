"""Record what a pod costs now as its budget: `python -m tests.budget.record`."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO

import anyio

from tests.budget.test_budget import BUDGET, KINDS, calls_per_pod


async def record() -> None:
    with redirect_stdout(StringIO()):  # the pods' log lines, whose cost counts too
        budget = {kind: round(await calls_per_pod(kind)) for kind in KINDS}
    BUDGET.write_text(json.dumps(budget, indent=2) + "\n")
    print(BUDGET.read_text(), end="")


if __name__ == "__main__":
    anyio.run(record)
