"""One requirement on one label, decided for all nodes of a view through the label's column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from actors.model.columns import Bools
from actors.model.snapshot import NodeView


def select_rows(nodes: NodeView, label: str, operator: str, values: Sequence[str]) -> Bools:
    """bool[nodes.size]: where the requirement `label operator values` holds.

    Operators: In, NotIn, Exists, DoesNotExist, Gt, Lt, as in a NodeSelectorRequirement. Gt and Lt look at each
    distinct value once; a value that is no integer does not match. An unknown operator matches nothing.
    """
    column = nodes.columns.label(label)
    codes = column.codes[nodes.rows]
    match operator:
        case "Exists":
            return np.asarray(codes >= 0)
        case "DoesNotExist":
            return np.asarray(codes < 0)
        case "In" | "NotIn":
            wanted = [code for code in map(column.code, values) if code is not None]
            found = codes == wanted[0] if len(wanted) == 1 else np.isin(codes, wanted)
            return np.asarray(found if operator == "In" else ~found)
        case "Gt" | "Lt":
            # The last place of the table is read for code -1, a node without the label.
            table = np.zeros(len(column.values) + 1, dtype=np.bool_)
            bound = _integer(values[0]) if len(values) == 1 else None
            if bound is not None:
                for code, text in enumerate(column.values):
                    number = _integer(text)
                    if number is not None:
                        table[code] = number > bound if operator == "Gt" else number < bound
            return np.asarray(table[codes])
        case _:
            return np.zeros(nodes.size, dtype=np.bool_)


def _integer(text: str) -> int | None:
    """A 64-bit integer in decimal with an optional sign, None for all else."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None
