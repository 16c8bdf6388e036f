"""The array types of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Codes = NDArray[np.int32]
Bools = NDArray[np.bool_]
Rows = slice | Ints


def grown(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """The array with room for `rows` in its last axis; what is new is zero."""
    wider = np.zeros((*array.shape[:-1], rows), dtype=array.dtype)
    wider[..., : array.shape[-1]] = array
    return wider
