"""Reads recorded decisions of kube-scheduler 1.36.2 and compares berth's decisions with them.

A scenario is a JSON object: `config` (a KubeSchedulerConfiguration or null), `objects` (the whole
cluster), `pod`, and `expect` with kube-scheduler's decision. data/ has 20 scenarios of each
category. If the whole collection of 60 is in shared/golden beside the project, it is read instead.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).with_name("data")
WHOLE = Path(__file__).resolve().parents[3] / "shared" / "golden"


def load(category: str) -> list[dict[str, Any]]:
    """Every scenario of a category, in the file's order."""
    folder = WHOLE if WHOLE.is_dir() else HERE
    with gzip.open(folder / f"{category}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def difference(got: dict[str, Any], expect: dict[str, Any]) -> dict[str, Any]:
    """The keys in which a decision differs, each with (expected, got)."""
    if "error" in expect or "error" in got:
        return {} if "error" in expect and "error" in got else {"error": (expect, got)}
    assert got.keys() == expect.keys()
    return {key: (expect[key], got[key]) for key in expect if expect[key] != got[key]}
