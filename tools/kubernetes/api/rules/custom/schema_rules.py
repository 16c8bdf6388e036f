"""What a schema refuses, in the words of Kubernetes' validator of OpenAPI schemas.

Mirrors k8s.io/kube-openapi/pkg/validation/validate, with the field errors that
k8s.io/apiextensions-apiserver makes of its findings. A part of an object that an update leaves as
it was is not refused again, where the two can be told to be the same part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import re2

from ...types.api_documents import Document
from ...types.structural import LIST_KEYS, LIST_TYPE
from ..fields import printed_value, unsupported
from . import value_formats
from .list_types import key_of

_MOST = {"int32": 1 << 31, "int64": 1 << 63}
# RE2's names of errors in patterns, and Go's where they differ.
_IN_GO = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
}
NEW = object()  # in place of an earlier value, where there is none to compare with


def schema_problems(schema: Document, value: Any, path: str = "", before: Any = NEW) -> list[str]:
    """Returns the problems of a value; `before` is what it was before an update."""
    found = [*_problems(schema, value, path, before)]
    return [] if found and before is not NEW and value == before else found


def problems_under(path: str, problems: list[str]) -> list[str]:
    """Returns the problems of a part of an object, whose messages name places in that part."""
    return [
        path + problem.removeprefix("<nil>") if problem.startswith("<nil>") else f"{path}.{problem}"
        for problem in problems
    ]


def _problems(schema: Document, value: Any, path: str, before: Any) -> Iterator[str]:
    kind = type(value)
    mistyped = _type_problem(schema, value, path)
    if mistyped:
        yield mistyped
    if value is None:
        if not schema.get("nullable"):
            yield from _enum(schema, value, path)
        return
    yield from _combined(schema, value, path)
    if kind is str:
        yield from _text(schema, value, path)
    elif kind in (int, float):
        yield from _number(schema, value, path)
    elif kind is list:
        yield from _list(schema, value, path, before)
    yield from _enum(schema, value, path)
    if kind is dict:
        yield from _object(schema, value, path, before)


def json_type(value: Any) -> str:
    """Returns the name of a value's type in OpenAPI."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def _type_problem(schema: Document, value: Any, path: str) -> str:
    wanted, is_ = schema.get("type") or "", json_type(value)
    if schema.get("x-kubernetes-int-or-string"):
        return (
            ""
            if is_ in ("integer", "string") or value is None
            else _mistyped(path, "integer,string", is_)
        )
    if not wanted or is_ == wanted:
        return ""
    if value is None:
        return "" if schema.get("nullable") else _mistyped(path, wanted, is_)
    if wanted == "number" and is_ == "integer":
        return ""
    if wanted == "integer" and is_ == "number" and value.is_integer():
        return ""
    return _mistyped(path, wanted, is_)


def _mistyped(path: str, wanted: str, is_: str) -> str:
    return _problem(path, is_, f'must be of type {wanted}: "{is_}"')


def _problem(path: str, value: Any, why: str) -> str:
    return f"{path or '<nil>'}: Invalid value: {printed_value(value)}: {_in_body(path)} {why}"


def _in_body(path: str) -> str:
    return f"{path} in body"


def _text(schema: Document, value: str, path: str) -> Iterator[str]:
    size, most, least = len(value), schema.get("maxLength"), schema.get("minLength")
    pattern = schema.get("pattern")
    if most is not None and size > most:
        yield f"{path}: Too long: may not be more than {most} bytes"
    elif least is not None and size < least:
        yield _problem(path, value, f"should be at least {least} chars long")
    elif pattern and not _compiled(pattern).search(value):
        yield _problem(path, value, f"should match '{pattern}'")
    form = schema.get("format")
    if form and schema.get("type") in ("string", None) and not value_formats.has(form, value):
        yield _problem(path, value, f"must be of type {form}: {printed_value(value)}")


def pattern_problem(pattern: str) -> str:
    """Returns why a text is no regular expression; "" if it is one."""
    try:
        _compiled(pattern)
    except re2.error as problem:
        detail = problem.args[0] if problem.args else b""
        code, _, part = detail.decode(errors="replace").partition(": ")
        return f"error parsing regexp: {_IN_GO.get(code, code)}: `{part}`"
    return ""


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    options = re2.Options()
    options.log_errors = False
    compiled: re.Pattern[str] = re2.compile(pattern, options)
    return compiled


def _number(schema: Document, value: float, path: str) -> Iterator[str]:
    form, wanted = schema.get("format"), schema.get("type")
    most = _MOST.get(form or "", _MOST["int64"])
    if wanted == "integer" and not (float(value).is_integer() and -most <= value < most):
        told = f"with format {form}" if form in _MOST else "(default format)"
        why = f"Checked value must be of type {wanted} {told} in {path}"
        yield f'<nil>: Invalid value: "": {why}'
    factor = schema.get("multipleOf")
    if factor and value % factor:
        yield _problem(path, value, f"should be a multiple of {_shown(factor)}")
    # Kubernetes compares an int with a bound that is cut to one.
    bound = int if type(value) is int else float
    if schema.get("maximum") is not None:
        limit, is_open = bound(schema["maximum"]), schema.get("exclusiveMaximum")
        if value > limit or (is_open and value == limit):
            words = "" if is_open else "or equal to "
            yield _problem(path, value, f"should be less than {words}{_shown(limit)}")
    if schema.get("minimum") is not None:
        limit, is_open = bound(schema["minimum"]), schema.get("exclusiveMinimum")
        if value < limit or (is_open and value == limit):
            words = "" if is_open else "or equal to "
            yield _problem(path, value, f"should be greater than {words}{_shown(limit)}")


def _shown(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


def _enum(schema: Document, value: Any, path: str) -> Iterator[str]:
    allowed = schema.get("enum") or ()
    is_bool = isinstance(value, bool)
    if allowed and not any(value == e and is_bool is isinstance(e, bool) for e in allowed):
        texts = [each if isinstance(each, str) else printed_value(each) for each in allowed]
        yield unsupported(path, value, texts)


def _list(schema: Document, value: list[Any], path: str, before: Any) -> Iterator[str]:
    item = schema.get("items")
    if isinstance(item, dict):
        earlier = _earlier_items(schema, before)
        for i, each in enumerate(value):
            was = earlier.get(key_of(each, schema[LIST_KEYS]), NEW) if earlier else NEW
            yield from schema_problems(item, each, f"{path}[{i}]", was)
    size, most, least = len(value), schema.get("maxItems"), schema.get("minItems")
    if least is not None and size < least:
        yield _problem(path, size, f"should have at least {least} items")
    if most is not None and size > most:
        yield _too_many(path, size, most)


def _too_many(path: str, size: int, most: int) -> str:
    things = "item" if most == 1 else "items"
    return f"{path}: Too many: {size}: must have at most {most} {things}"


def _earlier_items(schema: Document, before: Any) -> dict[Any, Any]:
    if schema.get(LIST_TYPE) != "map" or type(before) is not list:
        return {}
    return {key_of(each, schema[LIST_KEYS]): each for each in before}


def _object(schema: Document, value: Document, path: str, before: Any) -> Iterator[str]:
    size, most, least = len(value), schema.get("maxProperties"), schema.get("minProperties")
    if least is not None and size < least:
        yield _problem(path, size, f"should have at least {least} properties")
    if most is not None and size > most:
        yield _too_many(path, size, most)
    fields, values = schema.get("properties") or {}, schema.get("additionalProperties")
    earlier = (
        before if type(before) is dict and schema.get("x-kubernetes-map-type") != "atomic" else {}
    )
    for name, each in value.items():
        below = fields.get(name)
        if below is None and isinstance(values, dict):
            below = values
        if below is not None:
            place = f"{path}.{name}" if path else name
            is_meta = not path and name in ("apiVersion", "kind")
            yield from schema_problems(
                below, each, place, NEW if is_meta else earlier.get(name, NEW)
            )
        elif values is False:
            yield _problem(f"{path}.{name}" if path else name, each, "is a forbidden property")
    for name in schema.get("required") or ():
        if name not in value:
            yield f"{path}.{name}: Required value" if path else f"{name}: Required value"


def _combined(schema: Document, value: Any, path: str) -> Iterator[str]:
    """Yields the problems of anyOf, oneOf, allOf and not."""

    def refused(why: str) -> str:
        return f'<nil>: Invalid value: "": "{path}" {why}'

    if any_of := schema.get("anyOf"):
        tried = [schema_problems(each, value, path) for each in any_of]
        if all(tried):
            yield refused("must validate at least one schema (anyOf)")
            yield from min(tried, key=len)
    if one_of := schema.get("oneOf"):
        tried = [schema_problems(each, value, path) for each in one_of]
        valid = sum(not each for each in tried)
        if valid != 1:
            found = "Found none valid" if not valid else f"Found {valid} valid alternatives"
            yield refused(f"must validate one and only one schema (oneOf). {found}")
            if not valid:
                yield from min(tried, key=len)
    if all_of := schema.get("allOf"):
        tried = [schema_problems(each, value, path) for each in all_of]
        for each in tried:
            yield from each
        if any(tried):
            yield refused(
                f"must validate all the schemas (allOf){'. None validated' if all(tried) else ''}"
            )
    if (none_of := schema.get("not")) is not None and not schema_problems(none_of, value, path):
        yield refused("must not validate the schema (not)")
