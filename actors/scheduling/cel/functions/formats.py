"""Named formats of text for `validate`: names of Kubernetes, dates, UUIDs and so on."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from datetime import date
from typing import Any

from .. import network, times
from ..declarations import Overload, cost_of_reading, overload
from ..errors import CelError
from ..values import NONE, Format, Optional, size_of

Check = Callable[[str], list[str]]

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_VALUE = rf"({_QUALIFIED})?"
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_END = "must start and end with an alphanumeric character"


def _pattern(pattern: str, longest: int, message: str, *examples: str) -> Check:
    matcher = re.compile(pattern)
    shown = " or ".join(f"'{example}', " for example in examples)
    wrong = f"{message} (e.g. {shown}regex used for validation is '{pattern}')"

    def check(text: str) -> list[str]:
        size = len(text.encode(errors="replace"))
        problems = [] if size <= longest else [f"must be no more than {longest} bytes"]
        # A pattern takes too long for texts that are much longer.
        return problems if size <= 4 * longest and matcher.fullmatch(text) else [*problems, wrong]

    return check


def _check_of_prefix(check: Check) -> Check:
    """Returns the check of a name's prefix, which may end with a dash."""
    return lambda text: check(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)


_IS_LABEL = _pattern(
    _LABEL,
    63,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    f"{_END}",
    "my-name",
    "123-abc",
)
_IS_SUBDOMAIN = _pattern(
    _SUBDOMAIN,
    253,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    f"'.', and {_END}",
    "example.com",
)
_IS_LABEL_1035 = _pattern(
    _LABEL_1035,
    63,
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character",
    "my-name",
    "abc-123",
)
_IS_NAME = _pattern(
    _QUALIFIED,
    63,
    f"must consist of alphanumeric characters, '-', '_' or '.', and {_END}",
    "MyName",
    "my.name",
    "123-abc",
)
_IS_LABEL_VALUE = _pattern(
    _VALUE,
    63,
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    f"'.', and {_END}",
    "MyValue",
    "my_value",
    "12345",
)


def _qualified_name(text: str) -> list[str]:
    parts = text.split("/")
    if len(parts) > 2:
        message = "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and "
        example = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"{message}{_END} {example}"]
    problems: list[str] = []
    if len(parts) == 2:
        if not parts[0]:
            problems.append("prefix part must be non-empty")
        else:
            problems += [f"prefix part {problem}" for problem in _IS_SUBDOMAIN(parts[0])]
    if not parts[-1]:
        problems.append("name part must be non-empty")
    return problems + [f"name part {problem}" for problem in _IS_NAME(parts[-1])]


def _uri(text: str) -> list[str]:
    try:
        network.parse_url(text)
    except CelError as problem:
        return [str(problem).removeprefix("URL parse error during conversion from string: ")]
    return []


def _uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


def _base64_problem(text: str) -> list[str]:
    try:
        binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except ValueError:
        return ["invalid base64"]
    return [] if text else ["invalid base64"]


def _date(text: str) -> list[str]:
    try:
        date.fromisoformat(text)
    except ValueError:
        return ["invalid date"]
    return [] if len(text) == 10 else ["invalid date"]


def _datetime(text: str) -> list[str]:
    try:
        parsed = times.parse_timestamp(text.upper())
    except CelError:
        parsed = None
    return [] if parsed is not None else ["invalid datetime"]


_CHECKS: dict[str, tuple[str, int, Check]] = {
    "dns1123Label": ("DNS1123Label", 30, _IS_LABEL),
    "dns1123Subdomain": ("DNS1123Subdomain", 60, _IS_SUBDOMAIN),
    "dns1035Label": ("DNS1035Label", 30, _IS_LABEL_1035),
    "qualifiedName": ("QualifiedName", 60, _qualified_name),
    "dns1123LabelPrefix": ("DNS1123LabelPrefix", 30, _check_of_prefix(_IS_LABEL)),
    "dns1123SubdomainPrefix": ("DNS1123SubdomainPrefix", 60, _check_of_prefix(_IS_SUBDOMAIN)),
    "dns1035LabelPrefix": ("DNS1035LabelPrefix", 30, _check_of_prefix(_IS_LABEL_1035)),
    "labelValue": ("LabelValue", 40, _IS_LABEL_VALUE),
    "uri": ("URI", 1103, _uri),
    "uuid": ("uuid", 90, _uuid),
    "byte": ("byte", 84, _base64_problem),
    "date": ("date", 200, _date),
    "datetime": ("datetime", 200, _datetime),
}
_FORMATS = {key: Format(name, cost) for key, (name, cost, _) in _CHECKS.items()}
_BY_NAME = {name: check for name, _, check in _CHECKS.values()}


def _format_named(name: str) -> Optional:
    return Optional(_FORMATS[name]) if name in _FORMATS else NONE


def _validate(format_: Format, text: str) -> Optional:
    problems = _BY_NAME[format_.name](text)
    return Optional(problems) if problems else NONE


def _validate_cost(format_: Any, text: Any) -> int:
    return cost_of_reading(1 + size_of(text)) * -(-int(format_.cost) // 4)


def _constant(key: str) -> Overload:
    value = _FORMATS[key]
    return overload(f"format.{key}", f"format.{key}() -> format", lambda: value)


OVERLOADS = [
    overload("format-named", "format.named(string) -> optional(format)", _format_named),
    overload(
        "format-validate",
        "format::validate(string) -> optional(list(string))",
        _validate,
        _validate_cost,
    ),
    *map(_constant, _FORMATS),
]
