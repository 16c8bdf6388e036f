"""Selectors: compiled expressions over a device. Pure.

Upstream compiles in k8s.io/dynamic-resource-allocation/cel, with the environment for expressions
that are stored, so every function is available whatever the feature gates say. In Kubernetes 1.36
attributes are scalars of the type `any`; since 1.37 they may be lists, and have the type `dyn`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..kube.devices import Device, DeviceAttribute
from .checker import DEVICE_ONLY
from .compiled import Compiled, evaluated
from .errors import CelError
from .quantities import parse as parse_quantity
from .run import Run
from .semver import parse as parse_semver
from .types import Type
from .values import Domains, type_name

T = TypeVar("T")
MOST_KEPT = 64 << 20


class Selector(Compiled):
    """A compiled expression over a device, whose attributes may be lists if `lists` is True."""

    def __init__(self, expression: str, *, lists: bool = False) -> None:
        super().__init__(expression, DEVICE_ONLY, lists=lists)

    def _problem(self, result: Type) -> str:
        if result.kind in ("bool", "dyn" if self._lists else "any"):
            return ""
        return f"must evaluate to bool or the unknown type, not {result.declared}"

    def matches(
        self, driver: str, device: Device, spend: Callable[[int], None] | None = None
    ) -> bool:
        """True if the device is selected. Raises CelError. Calls `spend` with the units of work
        that the evaluation took.
        """
        if self._program is None:
            raise CelError(self.error)
        step, slots, size, patterns = self._program
        multiple = device.allow_multiple_allocations is True
        run = Run(
            slots,
            driver,
            _by_domain(driver, device.attributes, _value_or_list if self._lists else _value),
            _by_domain(driver, device.capacity, lambda _, item: parse_quantity(str(item.value))),
            multiple=multiple,
            work=size,
            patterns=patterns,
        )
        result = evaluated(step, run, spend)
        if type(result) is not bool:
            name = type_name(result)
            raise CelError(
                f"CEL result of type {name} could not be converted to bool: "
                f"type conversion error from '{name}' to 'bool'"
            )
        return result


class _RecentSelectors:
    """The most recently used selectors, up to MOST_KEPT bytes."""

    def __init__(self) -> None:
        self._selectors: OrderedDict[str, Selector] = OrderedDict()
        self._size = 0

    def get(self, expression: str) -> Selector | None:
        selector = self._selectors.get(expression)
        if selector is not None:
            self._selectors.move_to_end(expression)
        return selector

    def add(self, selector: Selector) -> None:
        self._selectors[selector.expression] = selector
        self._size += selector.size
        while self._size > MOST_KEPT and len(self._selectors) > 1:
            self._size -= self._selectors.popitem(last=False)[1].size


_KEPT, _KEPT_WITH_LISTS = _RecentSelectors(), _RecentSelectors()


def selector(
    expression: str, spend: Callable[[int], None] | None = None, *, lists: bool = False
) -> Selector:
    """Returns the compiled expression. An expression that cannot be compiled has an `error`.

    Calls `spend` with the units of work if the expression has to be compiled.
    """
    kept = _KEPT_WITH_LISTS if lists else _KEPT
    selector = kept.get(expression)
    if selector is None:
        selector = Selector(expression, lists=lists)
        kept.add(selector)
        if spend is not None:
            spend(selector.work)
    return selector


def _by_domain(driver: str, parts: Mapping[str, T], value_of: Callable[[str, T], Any]) -> Domains:
    """Returns the values of attributes or capacities by domain and identifier. Raises CelError."""
    values = Domains()
    for name, part in parts.items():
        domain, slash, id_ = name.partition("/")
        if not slash:
            domain, id_ = driver, name
        ids = values.get(domain)
        if ids is None:
            ids = values[domain] = {}
        ids[id_] = value_of(name, part)
    return values


def _value_or_list(name: str, attribute: DeviceAttribute) -> Any:
    for values in (attribute.ints, attribute.bools, attribute.strings):
        if values is not None:
            return [*values]
    if attribute.versions is not None:
        return [_version(name, text) for text in attribute.versions]
    return _value(name, attribute)


def _value(name: str, attribute: DeviceAttribute) -> Any:
    if attribute.int_ is not None:
        return attribute.int_
    if attribute.bool_ is not None:
        return attribute.bool_
    if attribute.string is not None:
        return attribute.string
    if attribute.version is not None:
        return _version(name, attribute.version)
    raise CelError(f"attribute {name}: unsupported attribute value")


def _version(name: str, text: str) -> Any:
    try:
        return parse_semver(text)
    except CelError as problem:
        raise CelError(f"attribute {name}: parse semantic version: {problem}") from None
