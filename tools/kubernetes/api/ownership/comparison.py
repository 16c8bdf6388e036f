"""The fields that two objects differ in, and the fields that a document names.

Mirrors Compare and ToFieldSet of structured-merge-diff. A value that is equal in both objects is
not entered, and one that is the same object costs nothing.
"""

from __future__ import annotations

from typing import Any

from .field_sets import SELF, FieldSet, FieldSetError, item_step, leaf, value_step
from .merge_types import DEDUCED, MergeType

_ABSENT: Any = object()
_LEAF = leaf()
_SCALARS = frozenset((str, bool, int, float))
_NESTED = frozenset((dict, list))
_MOST = 4096
_flat: dict[tuple[MergeType, tuple[str, ...]], FieldSet] = {}  # by the keys of flat objects


def differences(
    of: MergeType, old: dict[str, Any], new: dict[str, Any]
) -> tuple[FieldSet, FieldSet]:
    """Returns the fields that a new object lacks, and those that it adds or changes."""
    removed: FieldSet = {}
    changed: FieldSet = {}
    _compare_maps(of, old, new, removed, changed)
    return removed, changed


def named_fields(of: MergeType, document: dict[str, Any]) -> FieldSet:
    """Returns the fields that a document names: what an apply of it owns."""
    return _named_map(of, document)


def step_to(of: MergeType, item: Any) -> str:
    """Returns the step to an item of a list that is not atomic. Raises FieldSetError."""
    if of.keys:
        if type(item) is not dict:
            raise FieldSetError("associative list with keys may not have non-map elements")
        return item_step(of.keys, item, of.key_defaults)
    if item is None or type(item) in (dict, list):
        raise FieldSetError("associative list without keys may have scalars alone")
    return value_step(item)


def _compare_maps(
    of: MergeType,
    old: dict[str, Any],
    new: dict[str, Any],
    removed: FieldSet,
    changed: FieldSet,
) -> None:
    fields, always = of.parts
    for key, value in new.items():
        was = old.get(key, _ABSENT)
        if was is value:
            continue
        if was is _ABSENT and (was := always.get(key, _ABSENT)) is _ABSENT:
            changed[f"f:{key}"] = _whole(fields.get(key) or of.values or DEDUCED, value)
        elif was != value or type(was) is not type(value):
            below = fields.get(key) or of.values or DEDUCED
            _compare(below, f"f:{key}", was, value, removed, changed)
    for key in old.keys() - new.keys():
        was = old[key]
        below = fields.get(key) or of.values or DEDUCED
        if (value := always.get(key, _ABSENT)) is _ABSENT:
            removed[f"f:{key}"] = _whole(below, was)
        elif was != value:
            _compare(below, f"f:{key}", was, value, removed, changed)


def _compare(
    of: MergeType, step: str, old: Any, new: Any, removed: FieldSet, changed: FieldSet
) -> None:
    """Compares two different values of a field or an item, either of which may be null."""
    kind = type(new) if new is not None else type(old)
    if kind is dict and of.is_map and not of.is_atomic and type(old) in (dict, type(None)):
        gone: FieldSet = {}
        news: FieldSet = {}
        _compare_maps(of, old or {}, new or {}, gone, news)
    elif kind is list and of.keys is not None and type(old) in (list, type(None)):
        gone, news = {}, {}
        _compare_lists(of, old or [], new or [], gone, news)
    else:
        changed[step] = _LEAF
        return
    if gone:
        removed[step] = gone
    if news:
        changed[step] = news
    if not old and not new:
        changed[step] = _LEAF  # an empty value in place of null, or the other way round


def _compare_lists(
    of: MergeType, old: list[Any], new: list[Any], removed: FieldSet, changed: FieldSet
) -> None:
    item = of.item or DEDUCED
    if _are_aligned(of.keys, old, new):
        for was, value in zip(old, new, strict=True):
            if was is not value and was != value:
                _compare(item, step_to(of, value), was, value, removed, changed)
        return
    had, have = _by_step(of, old), _by_step(of, new)
    for step, values in have.items():
        was = had.get(step, ())
        if len(was) > 1 or len(values) > 1:
            if list(was) != values:
                changed[step] = _LEAF
        elif not was:
            changed[step] = _whole(item, values[0])
        elif was[0] is not values[0] and was[0] != values[0]:
            _compare(item, step, was[0], values[0], removed, changed)
    for step, was in had.items():
        if step not in have:
            removed[step] = _whole(item, was[0]) if len(was) == 1 else _LEAF


def _are_aligned(keys: tuple[str, ...] | None, old: list[Any], new: list[Any]) -> bool:
    """True if two lists have items with the same keys at the same places, each once."""
    if not keys or len(keys) > 1 or len(old) != len(new):
        return False
    key = keys[0]
    try:
        names = [item[key] for item in new]
        return names == [item[key] for item in old] and len(set(names)) == len(names)
    except (KeyError, TypeError):
        return False


def _by_step(of: MergeType, items: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(step_to(of, item), []).append(item)
    return found


def _whole(of: MergeType, value: Any) -> FieldSet:
    """Returns the set below a field or an item that only one of two objects has."""
    kind = type(value)
    if kind in _SCALARS or value is None:
        return _LEAF
    if kind is dict and of.is_map and not of.is_atomic:
        flat = (of, (*value,)) if _NESTED.isdisjoint(map(type, value.values())) else None
        if flat is not None and (known := _flat.get(flat)) is not None:
            return known
        fields, always = of.parts
        other = of.values or DEDUCED
        below = {
            f"f:{key}": _LEAF if type(each) in _SCALARS else _whole(fields.get(key) or other, each)
            for key, each in value.items()
        }
        for key, empty in always.items():
            if key not in value:
                below[f"f:{key}"] = _whole(fields[key], empty)
        if flat is not None:
            if len(_flat) >= _MOST:
                _flat.clear()
            _flat[flat] = {SELF: _LEAF, **below} if below else below
            return _flat[flat]
    elif kind is list and of.keys is not None:
        item = of.item or DEDUCED
        steps = [step_to(of, each) for each in value]
        below = {step: _whole(item, each) for step, each in zip(steps, value, strict=True)}
        if len(below) < len(steps):  # items that occur twice are owned as a whole
            below |= dict.fromkeys([step for step in below if steps.count(step) > 1], _LEAF)
    else:
        return _LEAF
    if below:
        below[SELF] = _LEAF
    return below


def _named_map(of: MergeType, document: dict[str, Any]) -> FieldSet:
    fields = of.fields
    named: FieldSet = {}
    for key, value in document.items():
        declared = fields.get(key)
        below = _named(declared or of.values or DEDUCED, value)
        if below is None:
            continue
        if declared is None and below:
            below = {SELF: _LEAF, **below}
        named[f"f:{key}"] = below
    return named


def _named(of: MergeType, value: Any) -> FieldSet | None:
    """Returns the set below a value, without the value itself; None if that has nothing."""
    kind = type(value)
    if kind is dict and of.is_map and not of.is_atomic:
        return _named_map(of, value) or (None if value else _LEAF)
    if kind is list and of.keys is not None:
        item = of.item or DEDUCED
        named: FieldSet = {}
        for step, items in _by_step(of, value).items():
            below = None if len(items) > 1 else _named(item, items[0])
            named[step] = {SELF: _LEAF, **below} if below else _LEAF
        return named or None
    return _LEAF
