"""Field errors in the words of Kubernetes, and the rules for names, labels and quantities that
kinds share.

A problem reads `path: Reason: value: detail`, as field.Error prints it. A check returns or yields
problems, none if all is well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from berth.actors.scheduling.kube import quantity
from berth.actors.scheduling.kube.labels import selector_or_nothing
from berth.actors.scheduling.kube.meta import LabelSelector
from berth.actors.scheduling.kube.names import label_value, qualified_name
from berth.actors.scheduling.kube.reading import Reader

Document = dict[str, Any]
NEGATIVE = "must be greater than or equal to 0"
NOT_POSITIVE = "must be greater than zero"
IMMUTABLE = "field is immutable"
_ANNOTATION_BYTES = 256 << 10
_SELECTOR = Reader(LabelSelector)
# The resources that quotas count, and all that they limit.
COUNTED = frozenset(
    (
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    )
)
# Those that every container must specify if a quota limits them.
COMPUTE = frozenset(
    f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory")
)
SCRATCH = frozenset(f"{prefix}ephemeral-storage" for prefix in ("", "requests.", "limits."))
IN_QUOTAS = COUNTED | COMPUTE | SCRATCH | {"requests.storage"}


STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_ESCAPES = dict(zip("\a\b\f\n\r\t\v", map("\\{}".format, "abfnrtv"), strict=True))


def printed_value(value: Any) -> str:
    """Returns a value in the form in which field.Error prints it: as JSON, but for the characters
    of a text that cannot be printed.
    """
    if type(value) is str and not value.isprintable():
        return '"' + "".join(map(_quoted, value)) + '"'
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _quoted(character: str) -> str:
    """Returns a character as Go quotes it."""
    if character.isprintable():
        return f"\\{character}" if character in '"\\' else character
    code = ord(character)
    wide = f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
    return _ESCAPES.get(character) or (f"\\x{code:02x}" if code < 0x80 else wide)


def required(path: str, detail: str = "") -> str:
    return f"{path}: Required value: {detail}" if detail else f"{path}: Required value"


def invalid(path: str, value: Any, detail: str) -> str:
    return f"{path}: Invalid value: {printed_value(value)}: {detail}"


def forbidden(path: str, detail: str) -> str:
    return f"{path}: Forbidden: {detail}"


def duplicate(path: str, value: Any, detail: str = "") -> str:
    return f"{path}: Duplicate value: {printed_value(value)}" + (f": {detail}" if detail else "")


def too_long(path: str, most: int) -> str:
    return f"{path}: Too long: may not be more than {most} bytes"


def too_many(path: str, number: int, most: int) -> str:
    return f"{path}: Too many: {number}: must have at most {most} items"


def unsupported(path: str, value: Any, supported: Iterable[str]) -> str:
    listed = ", ".join(printed_value(choice) for choice in supported)
    return f"{path}: Unsupported value: {printed_value(value)}: supported values: {listed}"


def one_of(path: str, value: Any, supported: Sequence[str]) -> list[str]:
    """Checks that the value, if there is one, is one of those supported."""
    return [] if value is None or value in supported else [unsupported(path, value, supported)]


def unchanged(path: str, after: Any, before: Any) -> list[str]:
    return [] if after == before else [invalid(path, after, IMMUTABLE)]


def between(path: str, value: int, low: int, high: int) -> list[str]:
    return (
        []
        if low <= value <= high
        else [invalid(path, value, f"must be between {low} and {high}, inclusive")]
    )


def least(path: str, value: int, low: int) -> list[str]:
    if value >= low:
        return []
    return [
        invalid(
            path, value, f"must be greater than or equal to {low}" if low != 1 else NOT_POSITIVE
        )
    ]


def go_struct(value: Document, names: Iterable[str]) -> Document:
    """Returns a value in the form of its Go type, with all its fields, as messages show it."""
    return {name: value.get(name[0].lower() + name[1:]) for name in names}


def annotation_rules(path: str, pairs: Mapping[str, str] | None) -> list[str]:
    """Returns the problems of annotations: of each key, and of the total size."""
    problems: list[str] = []
    size = 0
    for key, value in (pairs or {}).items():
        problems += [invalid(path, key, message) for message in qualified_name(key.lower())]
        size += len(key.encode()) + len((value or "").encode())
    return [*problems, too_long(path, _ANNOTATION_BYTES)] if size > _ANNOTATION_BYTES else problems


def labels(path: str, pairs: Mapping[str, str] | None) -> list[str]:
    """Returns the problems of the keys and values of labels or of a node selector."""
    problems: list[str] = []
    for key, value in (pairs or {}).items():
        problems += [invalid(path, key, message) for message in qualified_name(key)]
        problems += [invalid(path, value, message) for message in label_value(value or "")]
    return problems


def label_selector(path: str, selector: Document | None) -> list[str]:
    """Checks keys, operators and values of a selector."""
    if not selector:
        return []
    problems = labels(f"{path}.matchLabels", selector.get("matchLabels"))
    for i, requirement in enumerate(selector.get("matchExpressions") or ()):
        problems += selector_requirement(f"{path}.matchExpressions[{i}]", requirement)
    return problems


def selector_requirement(
    path: str, requirement: Document, single: Sequence[str] = (), *, any_value: bool = False
) -> Iterator[str]:
    """Returns the problems of a requirement on a label.

    In and NotIn need values, the `single` operators exactly one, Exists and DoesNotExist none.
    """
    key, operator = requirement.get("key", ""), requirement.get("operator", "")
    values = requirement.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden(f"{path}.values", detail)
    elif operator in single:
        if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            yield required(f"{path}.values", detail)
    else:
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from (invalid(f"{path}.key", key, message) for message in qualified_name(key))
    for i, value in enumerate(() if any_value else values):
        yield from (
            invalid(f"{path}.values[{i}]", value, message) for message in label_value(value)
        )


def selects(selector: Document | None, pairs: Mapping[str, str]) -> bool:
    """True if a label selector matches these labels. An empty selector matches all labels, an
    absent or malformed one none.
    """
    return selector is not None and selector_or_nothing(_SELECTOR.convert(selector)).matches(pairs)


def quantities(path: str, amounts: Mapping[str, Any] | None) -> list[str]:
    """Checks that amounts are not negative, and that countable resources have whole numbers."""
    problems: list[str] = []
    for name, amount in (amounts or {}).items():
        problems += resource_amount(f"{path}[{name}]", name, amount)
    return problems


def resource_amount(path: str, name: str, amount: Any) -> Iterator[str]:
    nano = quantity.nano_value(amount or 0)
    if nano < 0:
        yield invalid(path, str(amount), NEGATIVE)
    if nano % 1_000_000_000 and (is_extended(name) or name == "pods"):
        yield invalid(path, str(amount), "must be an integer")


def is_extended(name: str) -> bool:
    """True if the resource's name has a domain other than Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
