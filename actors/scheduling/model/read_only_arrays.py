"""The arrays and lists that the scheduler lends to plugins, to which only their owner writes.

A plugin reads the scheduler's own accounts and not copies. If it could write to them, by a slip
such as `used += ...`, every later decision would be wrong. Mappings are lent as MappingProxyType.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from numpy.typing import NDArray

T = TypeVar("T")


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Returns a view of the array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Returns the array, which becomes read-only."""
    array.flags.writeable = False
    return array


class ReadOnlyList(list[T]):
    """A list whose own methods refuse changes. Its owner changes it by the methods of `list`."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a list of the scheduler is read-only")

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
