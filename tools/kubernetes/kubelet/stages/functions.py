"""The functions of templates besides Go's own: those of KWOK, and the common ones of sprig."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import yaml

from ...objects.structs import Document
from .go_builtins import Functions, check_length, check_width, is_true, printed

# KWOK's functions whose results depend on the time, the node or the pod; the players give them.
OF_PLAYERS = (
    "Now",
    "StartTime",
    "Version",
    "NodeName",
    "NodeIP",
    "NodePort",
    "NodeIPWith",
    "NodeIPsWith",
    "PodIP",
    "PodIPWith",
    "PodIPsWith",
)
NODE_CONDITIONS: list[Document] = [
    {"type": kind, "status": status, "reason": reason, "message": message}
    for kind, status, reason, message in (
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        (
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
        ("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"),
    )
]


def quote(value: Any) -> str:
    """Returns a value as a JSON text in quotes, which YAML reads as text."""
    return json.dumps(value if isinstance(value, str) else json.dumps(value))


def as_yaml(value: Any, indent: int = 0) -> str:
    """Returns a value as YAML. With an indent, each line begins with twice that many spaces."""
    check_width(indent)
    text = str(yaml.safe_dump(value, default_flow_style=False))
    return ("\n" + text).replace("\n", "\n" + "  " * indent) if indent else text


def _dict(*items: Any) -> dict[str, Any]:
    return {printed(key): value for key, value in zip(items[::2], items[1::2], strict=False)}


def _integer(number: int) -> int:
    """Returns a number. Raises ValueError if Go has no such integer."""
    if not -(2**63) <= number < 2**63:
        raise ValueError("the number has more than 64 bits")
    return number


def _replaced(old: str, new: str, text: str) -> str:
    check_length(len(text) + text.count(old) * (len(new) - len(old)))
    return text.replace(old, new)


def _first_true(*values: Any) -> Any:
    return next(filter(is_true, values), None)


def _indented(spaces: int, text: str) -> str:
    check_width(spaces)
    check_length(len(text) + (1 + text.count("\n")) * spaces)
    return " " * spaces + text.replace("\n", "\n" + " " * spaces)


PLAIN: dict[str, Callable[..., Any]] = {
    "Quote": quote,
    "YAML": as_yaml,
    "NodeConditions": lambda: NODE_CONDITIONS,
    "dict": _dict,
    "list": lambda *items: list(items),
    "default": lambda default, value=None: value if is_true(value) else default,
    "empty": lambda value: not is_true(value),
    "coalesce": _first_true,
    "ternary": lambda yes, no, test: yes if is_true(test) else no,
    "hasKey": lambda mapping, key: key in mapping,
    "get": lambda mapping, key: mapping.get(key, ""),
    "quote": lambda *values: " ".join(json.dumps(printed(value)) for value in values),
    "squote": lambda *values: " ".join(f"'{printed(value)}'" for value in values),
    "toString": printed,
    "toJson": lambda value: json.dumps(value, separators=(",", ":")),
    "toYaml": lambda value: as_yaml(value).rstrip("\n"),
    "int": lambda value: int(value or 0),
    "add": lambda *numbers: _integer(sum(map(int, numbers))),
    "sub": lambda left, right: _integer(int(left) - int(right)),
    "mul": lambda left, right: _integer(int(left) * int(right)),
    "div": lambda left, right: int(int(left) / int(right)),
    "mod": lambda left, right: int(left) % int(right),
    "min": lambda *numbers: min(map(int, numbers)),
    "max": lambda *numbers: max(map(int, numbers)),
    "upper": lambda text: text.upper(),
    "lower": lambda text: text.lower(),
    "trim": lambda text: text.strip(),
    "trunc": lambda length, text: text[:length],
    "contains": lambda part, text: part in text,
    "hasPrefix": lambda prefix, text: text.startswith(prefix),
    "hasSuffix": lambda suffix, text: text.endswith(suffix),
    "trimPrefix": lambda prefix, text: text.removeprefix(prefix),
    "trimSuffix": lambda suffix, text: text.removesuffix(suffix),
    "replace": _replaced,
    "join": lambda separator, items: separator.join(map(printed, items)),
    "indent": _indented,
    "nindent": lambda spaces, text: "\n" + _indented(spaces, text),
}
NAMES = frozenset(PLAIN) | frozenset(OF_PLAYERS)


def functions(of_player: Functions) -> Functions:
    """Returns all functions, with those of `of_player` under the names in OF_PLAYERS."""
    return {**PLAIN, **of_player}
