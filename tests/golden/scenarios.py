"""Reading the recorded decisions of ../shared/golden and comparing berth's with them.

The recordings stand beside the project, not in it; FORMAT.md there says what each key means.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden"
OF_PREEMPTION = ("preemption", "preemptionMessage")
POST_FILTER = (" preemption:", " no new claims to deallocate", " not found")


def load(category: str) -> list[dict[str, Any]]:
    """Every scenario of a category, in the file's order."""
    with gzip.open(GOLDEN / f"{category}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def comparable(scenario: dict[str, Any]) -> bool:
    """False if the pod has claims, of volumes or of devices: no plugin here decides about them yet."""
    spec = scenario["pod"]["spec"]
    claims = [v for v in spec.get("volumes", ()) if "persistentVolumeClaim" in v or "ephemeral" in v]
    return not claims and not spec.get("resourceClaims")


def difference(got: dict[str, Any], expect: dict[str, Any]) -> dict[str, Any]:
    """The keys in which a decision differs, each with (expected, got); what preemption adds is left out."""
    if "error" in expect or "error" in got:
        return {} if "error" in expect and "error" in got else {"error": (expect, got)}
    assert got.keys() == expect.keys()
    wanted = {**expect, "message": without_post_filter(expect["message"])}
    return {key: (wanted[key], got[key]) for key in wanted if key not in OF_PREEMPTION and wanted[key] != got[key]}


def without_post_filter(message: str | None) -> str | None:
    """The message up to what PostFilter says."""
    if message is None:
        return None
    for beginning in POST_FILTER:
        message = message.partition(beginning)[0]
    return message.rstrip()
