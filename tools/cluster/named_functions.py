"""Functions of users, which files name as `module:function`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def named_function(text: str, folder: Path) -> Callable[..., Any]:
    """Returns the function that `module:function` names; the module may be in this folder.

    Raises ValueError, which says what was expected.
    """
    module, _, name = text.partition(":")
    if not module or not name or module.startswith("."):
        raise ValueError(f"expected module:function, got {text!r}")
    sys.path.insert(0, str(folder.resolve()))
    try:
        function: object = getattr(importlib.import_module(module), name, None)
    except Exception as problem:  # the module is the user's, and may raise any
        raise ValueError(f"{module}: {type(problem).__name__}: {problem}") from problem
    finally:
        sys.path.pop(0)
    if not callable(function):
        raise ValueError(f"expected module:function, got {text!r}")  # noqa: TRY004 - of a file
    return function
