"""Reading the recorded decisions of ../shared/golden and comparing berth's with them.

The recordings stand beside the project, not in it; FORMAT.md there says what each key means.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden"


def load(category: str) -> list[dict[str, Any]]:
    """Every scenario of a category, in the file's order."""
    with gzip.open(GOLDEN / f"{category}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
