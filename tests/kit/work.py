"""Counts work that calls do not show, to measure cost independently of the machine."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np

from berth.actors.scheduling.model.vectors import Ints


class OpcodeCounter:
    """While entered, counts the bytecode instructions that run in functions of these modules; of
    all modules if none are given.
    """

    def __init__(self, *modules: str) -> None:
        self.opcodes = 0
        self._modules = modules

    def __enter__(self) -> OpcodeCounter:
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, _event: str, _argument: object) -> Any:
        if self._modules and frame.f_globals.get("__name__") not in self._modules:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._ran

    def _ran(self, _frame: FrameType, event: str, _argument: object) -> Any:
        self.opcodes += event == "opcode"
        return self._ran


class Watched(np.ndarray[Any, Any]):
    """An array that counts the elements that are read of it, or copied: `elements`."""

    elements = 0

    @classmethod
    def of(cls, array: Ints) -> Ints:
        return array.view(cls)

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if callable(value) and not name.startswith("__"):
            Watched.elements += self.size
        return value

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        if not isinstance(key, slice | int):
            Watched.elements += np.size(part)
        return part

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **more: Any) -> Any:
        Watched.elements += self.size
        plain = [x.view(np.ndarray) if isinstance(x, Watched) else x for x in inputs]
        return getattr(ufunc, method)(*plain, **more)

    def __array_function__(self, func: Any, _types: Any, args: Any, more: Any) -> Any:
        Watched.elements += self.size
        plain = [x.view(np.ndarray) if isinstance(x, Watched) else x for x in args]
        return func(*plain, **more)
