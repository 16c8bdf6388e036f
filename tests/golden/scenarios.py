"""Reads recorded decisions of kube-scheduler 1.36.2 and compares berth's decisions with them.

A scenario is a JSON object: `config` (a KubeSchedulerConfiguration or null), `objects` (the whole
cluster), `pod`, and `expect` with kube-scheduler's decision. data/ has 20 scenarios of each
category; `pytest --golden=FOLDER` reads a larger collection. overruled.json lists the recordings,
of decisions and of histories, that show a fault of kube-scheduler which berth does not have: by the
fault's subject in docs/differences.md, and with the parts of the decision that differ.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATA = HERE / "data"


def load(folder: Path, category: str) -> list[dict[str, Any]]:
    """Returns every scenario of a category, in the file's order."""
    with gzip.open(folder / f"{category}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def difference(got: dict[str, Any], expect: dict[str, Any]) -> dict[str, Any]:
    """Returns the keys in which a decision differs, each with (expected, got)."""
    if "error" in expect or "error" in got:
        return {} if "error" in expect and "error" in got else {"error": (expect, got)}
    assert got.keys() == expect.keys()
    return {key: (expect[key], got[key]) for key in expect if expect[key] != got[key]}


def overruled() -> dict[str, list[str]]:
    """Returns the parts of each overruled recording, by its name, in which berth differs."""
    faults: dict[str, dict[str, list[str]]] = json.loads((HERE / "overruled.json").read_bytes())
    return {name: parts for recordings in faults.values() for name, parts in recordings.items()}


def faults() -> list[str]:
    """Returns the subjects of the faults for which a recording is overruled."""
    return [*json.loads((HERE / "overruled.json").read_bytes())]
