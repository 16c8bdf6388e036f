"""The forms of names and labels, and the messages about invalid ones, in Kubernetes' words.

Each function returns messages that say why a text does not have a form; none if it has.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, wraps

Check = Callable[[str], tuple[str, ...]]

MOST_REMEMBERED = 253  # characters; the longest name

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_DNS_LABEL, _DNS_SUBDOMAIN = re.compile(_LABEL), re.compile(_SUBDOMAIN)
_LABEL_VALUE, _NAME_PART = re.compile(_VALUE), re.compile(_NAME)
_ENDS = "must start and end with an alphanumeric character"
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    f"and {_ENDS} (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
    f"'-' or '.', and {_ENDS} (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, "
    f"'-', '_' or '.', and {_ENDS} "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
_NAME_RULE = (
    f"must consist of alphanumeric characters, '-', '_' or '.', and {_ENDS} "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)


def _cached_check(check: Check) -> Check:
    """Returns a check that caches its latest answers, except for very long texts."""
    kept = lru_cache(maxsize=4096)(check)

    @wraps(check)
    def answer(text: str) -> tuple[str, ...]:
        return kept(text) if len(text) <= MOST_REMEMBERED else check(text)

    return answer


@_cached_check
def dns_label(text: str) -> tuple[str, ...]:
    """Returns messages that say why a text is not a DNS label; none if it is one."""
    dots = _DNS_SUBDOMAIN.fullmatch(text) is not None
    rule = "must not contain dots" if dots else _LABEL_RULE
    return _form(text, 63, _DNS_LABEL, rule, "characters")


@_cached_check
def dns_subdomain(text: str) -> tuple[str, ...]:
    return _form(text, 253, _DNS_SUBDOMAIN, _SUBDOMAIN_RULE, "characters")


@_cached_check
def label_value(text: str) -> tuple[str, ...]:
    return _form(text, 63, _LABEL_VALUE, _VALUE_RULE)


@_cached_check
def qualified_name(text: str) -> tuple[str, ...]:
    """Returns the reasons why a text is no qualified name such as example.com/gpu; () if it is
    one.
    """
    *prefixes, name = text.split("/")
    if len(prefixes) > 1:
        prefix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {_NAME_RULE} {prefix}",)
    messages: list[str] = []
    if prefixes:
        messages += (
            [f"prefix part {m}" for m in dns_subdomain(prefixes[0])]
            if prefixes[0]
            else ["prefix part must be non-empty"]
        )
    if not name:
        messages.append("name part must be non-empty")
    return (
        *messages,
        *(f"name part {message}" for message in _form(name, 63, _NAME_PART, _NAME_RULE)),
    )


def _form(
    text: str, longest: int, form: re.Pattern[str], rule: str, unit: str = "bytes"
) -> tuple[str, ...]:
    too_long = (f"must be no more than {longest} {unit}",) if len(text.encode()) > longest else ()
    return too_long if form.fullmatch(text) else (*too_long, rule)
