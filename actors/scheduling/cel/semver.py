"""Semantic versions, parsed and compared as Kubernetes does it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from .errors import CelError

MAX_UINT64 = (1 << 64) - 1
_ALPHANUMERIC = re.compile(r"[0-9A-Za-z-]+")
_NUMBER = re.compile(r"[0-9]+")


class Semver(NamedTuple):
    """A semantic version. Build metadata does not take part in comparisons."""

    major: int
    minor: int
    patch: int
    pre: tuple[int, tuple[tuple[int, Any], ...]]

    def compare(self, other: Semver) -> int:
        return (self > other) - (self < other)


@lru_cache(maxsize=1 << 12)
def parse(text: str) -> Semver:
    """Parses a version. Raises CelError."""
    if not text:
        raise CelError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise CelError("No Major.Minor.Patch elements found")
    patch, _, build = parts[2].partition("+")
    patch, dash, pre = patch.partition("-")
    numbers = (_number("Major", parts[0]), _number("Minor", parts[1]), _number("Patch", patch))
    labels = tuple(map(_pre_release, pre.split("."))) if dash else ()
    if "+" in parts[2]:
        _check_build(build)
    return Semver(*numbers, (0 if dash else 1, labels))


def parse_normalized(text: str, normalize: bool) -> Semver:
    """Parses a version that may begin with a v, have leading zeros or lack parts. Raises
    CelError.
    """
    if not normalize:
        return parse(text)
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise CelError("short version cannot contain PreRelease/Build meta data")
    return parse(".".join([*parts, "0", "0"][:3]))


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    part = part.lstrip("0")
    return part if part[:1].isdigit() and part[:1].isascii() else "0" + part


def _number(name: str, text: str) -> int:
    if text and not _NUMBER.fullmatch(text):
        message = f'Invalid character(s) found in {name.lower()} number "{text}"'
        raise CelError(message)
    if len(text) > 1 and text[0] == "0":
        raise CelError(f'{name} number must not contain leading zeroes "{text}"')
    return _parsed(text)


def _parsed(text: str) -> int:
    if not text:
        raise CelError('strconv.ParseUint: parsing "": invalid syntax')
    value = int(text) if len(text) < 64 else MAX_UINT64 + 1
    if value > MAX_UINT64:
        raise CelError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return value


def _pre_release(text: str) -> tuple[int, Any]:
    if not text:
        raise CelError("Prerelease is empty")
    if _NUMBER.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            message = "Numeric PreRelease version must not contain leading zeroes"
            raise CelError(f'{message} "{text}"')
        return 0, _parsed(text)
    if not _ALPHANUMERIC.fullmatch(text):
        raise CelError(f'Invalid character(s) found in prerelease "{text}"')
    return 1, text


def _check_build(text: str) -> None:
    for part in text.split("."):
        if not part:
            raise CelError("Build meta data is empty")
        if not _ALPHANUMERIC.fullmatch(part):
            raise CelError(f'Invalid character(s) found in build meta data "{part}"')
