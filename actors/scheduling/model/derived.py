"""Properties that are derived from an object once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class derived_once(Generic[T]):  # noqa: N801 - a decorator, as functools.cached_property is
    """A functools.cached_property as in Python 3.12: without the lock of 3.11, which costs more
    than most derivations.
    """

    def __init__(self, derive: Callable[[Any], T]) -> None:
        self._derive = derive
        self._name = derive.__name__
        self.__doc__ = derive.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object, owner: type) -> T | Self:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._derive(instance)
        return value
