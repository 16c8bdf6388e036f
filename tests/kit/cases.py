"""Tables of cases as text: a row begins at the left margin and goes on where the next lines are
indented, and `=>` parts its cells.
"""

from __future__ import annotations

import re
from typing import Any

import yaml


def texts(table: str) -> list[tuple[str, ...]]:
    """Returns the cells of each row, with one space for each fold."""
    rows = re.split(r"\n(?=\S)", table.strip())
    return [tuple(re.split(r" ?=> ?", " ".join(row.split()))) for row in rows]


def documents(table: str) -> list[tuple[Any, ...]]:
    """Returns the rows with every cell read as YAML but the last, which is a message."""
    return [(*map(yaml.safe_load, cells), message) for *cells, message in texts(table)]
