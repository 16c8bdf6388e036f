"""A document merged into an object, and fields taken out of an object.

Mirrors Merge and RemoveItems of structured-merge-diff.
"""

from __future__ import annotations

from typing import Any

from .comparison import step_to
from .field_sets import SELF, FieldSet, has, leaf
from .merge_types import DEDUCED, MergeType

_LEAF = leaf()


def merged(of: MergeType, live: Any, applied: Any) -> Any:
    """Returns the live value with the applied one merged into it. Removes nothing."""
    kind = type(applied)
    if kind is dict and type(live) is dict and of.is_map and not of.is_atomic and (live or applied):
        fields, other = of.fields, of.values or DEDUCED
        result = dict(live)
        for key, value in applied.items():
            below = fields.get(key) or other
            result[key] = merged(below, live[key], value) if key in live else value
        return result
    if applied is None and of.is_map and not of.is_atomic and live:
        return live
    if kind is list and type(live) is list and of.keys is not None and (live or applied):
        return _merged_list(of, live, applied)
    if applied is None and of.keys is not None and live:
        return live
    return applied


def _merged_list(of: MergeType, live: list[Any], applied: list[Any]) -> list[Any]:
    """Returns the items of both lists: those of the applied one in its order, the others where
    they were among the items that both have.
    """
    item = of.item or DEDUCED
    here = [step_to(of, each) for each in live]
    there = [step_to(of, each) for each in applied]
    of_live: dict[str, Any] = {}
    for step, each in zip(here, live, strict=True):
        of_live[step] = None if step in of_live else each  # items that occur twice are replaced
    of_applied = dict(zip(there, applied, strict=True))
    shared = [step for step in there if step in of_live]
    result: list[Any] = []
    taken: set[str] = set()
    i = j = 0
    while i < len(here) or j < len(there):
        if i < len(here) and j < len(there):
            step = here[i]
            if step == there[j]:
                taken.add(step)
                result.append(_merged_item(item, of_live[step], of_applied[step]))
                i, j = i + 1, j + 1
                shared = shared[1:]
                continue
            if step in of_applied and shared and shared[0] != step:
                i += 1  # an item of both, which comes later
                continue
        if i < len(here):
            step = here[i]
            if step not in of_applied:
                result.append(live[i])
                i += 1
                continue
            if step in taken:
                i += 1
        if j < len(there):
            step = there[j]
            taken.add(step)
            result.append(_merged_item(item, of_live.get(step), of_applied[step]))
            j += 1
            if shared and shared[0] == step:
                shared = shared[1:]
    return result


def _merged_item(of: MergeType, live: Any, applied: Any) -> Any:
    return applied if live is None else merged(of, live, applied)


def stripped(of: MergeType, value: Any, fields: FieldSet) -> Any:
    """Returns a value without the fields of a set; an object or list may be empty then."""
    if type(value) is dict and of.is_map and not of.is_atomic:
        types, other = of.fields, of.values or DEDUCED
        result: dict[str, Any] = {}
        for key, each in value.items():
            node = fields.get(f"f:{key}")
            if node is None:
                result[key] = each
            elif not has(node):
                result[key] = stripped(types.get(key) or other, each, node)
        return result
    if type(value) is list and of.keys is not None:
        item = of.item or DEDUCED
        items: list[Any] = []
        for each in value:
            node = fields.get(step_to(of, each))
            if node is None:
                items.append(each)
            elif not has(node):
                items.append(stripped(item, each, node))
        return items
    return {} if type(value) is dict else [] if type(value) is list else value


def with_named_fields(of: MergeType, fields: FieldSet) -> FieldSet:
    """Returns a set with, beside its fields, the fields of objects that lead to them."""
    types, other = of.fields, of.values
    result: FieldSet = {}
    for step, node in fields.items():
        if step == SELF:
            result[SELF] = _LEAF
            continue
        if step[0] == "f":
            declared = types.get(step[2:])
            below = with_named_fields(declared or other or DEDUCED, node)
            is_member = has(node) or declared is not None
        else:
            below = with_named_fields(of.item or DEDUCED, node)
            is_member = has(node)
        result[step] = {SELF: _LEAF, **below} if is_member and below else below
    return result
