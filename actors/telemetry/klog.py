"""Log lines in the two formats of Kubernetes' components: klog's text, and JSON as zap writes it.

    I1122 10:27:48.825530   18432 ending.py:40] "Unable to schedule pod; no fit; waiting" pod="."
    {"ts":1763806068825.53,"caller":"attempt/ending.py:40","msg":"...","v":2,"pod":{...}}

A line of text has the severity (I, W, E, F), the local time, the process, the place in the code,
the quoted message, and `key=value` pairs. A string of several lines is shown as a block. In JSON an
error has no `v`, and a warning has `severity`, which Kubernetes lacks. The names of pods,
`namespace/name`, become objects in JSON. The field `error` is shown as `err`: in warnings and
errors as the first pair of text and the last of JSON. The field `because` is shown as `event`,
which names the message here.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import FrameType

import msgspec

from ..scheduling.framework import logger
from ..scheduling.framework.logger import Fields

# klog's letters for the levels.
SEVERITIES = {"info": "I", "warning": "W", "error": "E", "critical": "F"}
_COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
# Fields to which berth gives another name.
RENAMED = {"error": "err", "because": "event"}
# Fields with the key of a namespaced object.
OBJECTS = frozenset({"pod", "preemptor", "victim"})
_ESCAPES = {
    **{ord(char): f"\\{char}" for char in '"\\'},
    **dict(zip(range(7, 14), (f"\\{letter}" for letter in "abtnvfr"), strict=True)),
}
_NO_HTML = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})
# The modules between the code that logs and this one.
_BETWEEN = (logger.__name__, f"{__name__.rpartition('.')[0]}.logs")
_frame = sys._getframe  # noqa: SLF001 - the only way to one frame without the whole stack
_encoder = msgspec.json.Encoder(enc_hook=str, order=None)


def quoted(text: str) -> str:
    """Returns a string as Go's strconv.Quote writes it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def printable(line: str) -> str:
    """Returns a line with its control characters escaped, except for tabs."""
    if line.isprintable():
        return line
    return "".join(c if c == "\t" or c.isprintable() else _escaped(c) for c in line)


def _escaped(char: str) -> str:
    code = ord(char)
    if code in _ESCAPES:
        return _ESCAPES[code]
    if char.isprintable():
        return char
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8, as Python carries it
        return f"\\x{code - 0xDC00:02x}"
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def number(value: float) -> str:
    """Returns a number as Go's encoding/json writes it."""
    if not math.isfinite(value):
        return f'"{value}"'
    text = repr(value)
    if "e" not in text:
        return text.removesuffix(".0")
    if value and not 1e-6 <= abs(value) < 1e21:
        return re.sub("e([+-])0", r"e\1", text)
    return format(Decimal(text), "f")


def pair(name: str, value: object) -> str:
    """Returns ` name=value`, as klog's textlogger writes it."""
    if isinstance(value, BaseException):
        value = str(value)
    if isinstance(value, str):
        if "\n" in value:
            lines = "\n\t".join(map(printable, value.removesuffix("\n").split("\n")))
            return f" {name}=<\n\t{lines}\n >"
        return f" {name}={quoted(value)}"
    if isinstance(value, bool):
        return f" {name}={'true' if value else 'false'}"
    if isinstance(value, int):
        return f" {name}={value}"
    if isinstance(value, float):
        return f" {name}={number(value)}"
    return f" {name}={_encoded(value).translate(_NO_HTML)}"


class UnquotedText(str):
    """A message without quotes in the text format, as in klog's Infof."""

    __slots__ = ()


class TextLines:
    """A renderer of lines of text. The text of the time is made once a second."""

    def __init__(self, process: int, *, colours: bool) -> None:
        self._process = f"{process % 10_000_000:>7}"
        self._colours = _COLOURS if colours else {}
        self._second, self._clock = -1, ""

    def __call__(self, level: str, fields: Fields) -> str:
        second, micros = divmod(time.time_ns() // 1000, 1_000_000)
        if second != self._second:
            self._clock = time.strftime("%m%d %H:%M:%S", time.localtime(second))
            self._second = second
        _, caller = _caller()
        message = fields.pop("event")
        fields.pop("v", None)
        shown = message if isinstance(message, UnquotedText) else quoted(message)
        text = f"{SEVERITIES[level]}{self._clock}.{micros:06} {self._process} {caller}] {shown}"
        if level != "info" and "error" in fields:
            text += pair("err", fields.pop("error"))
        for name, value in fields.items():
            text += pair(RENAMED.get(name, name), value)
        colour = self._colours.get(level)
        return f"{colour}{text}\x1b[0m" if colour else text


def render_json(level: str, fields: Fields) -> str:
    """Returns a line of JSON."""
    caller, _ = _caller()
    line = {"ts": time.time_ns() / 1e6, "caller": caller, "msg": fields.pop("event")}
    verbosity = fields.pop("v", 0)
    if level in ("info", "warning"):
        line["v"] = verbosity
    if level == "warning":
        line["severity"] = "warning"
    if level != "info" and "error" in fields:
        fields["error"] = fields.pop("error")  # moves it to the end
    for name, value in fields.items():
        line[RENAMED.get(name, name)] = _object(value) if name in OBJECTS else value
    return _encoded(line)


def _caller() -> tuple[str, str]:
    """Returns `folder/file:line` of the code that logs, and the same without the folder."""
    frame: FrameType | None = _frame(2)
    while frame is not None and frame.f_globals["__name__"] in _BETWEEN:
        frame = frame.f_back
    assert frame is not None
    return _place(frame.f_code.co_filename, frame.f_lineno)


@cache
def _place(path: str, line: int) -> tuple[str, str]:
    *_, folder, file = ("", *Path(path).parts)
    return f"{folder}/{file}:{line}", f"{file}:{line}"


def _object(value: object) -> object:
    if not isinstance(value, str):
        return value
    namespace, _, name = value.rpartition("/")
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


def _encoded(value: object) -> str:
    try:
        return _encoder.encode(value).decode()
    except UnicodeEncodeError:  # a surrogate, which Go cannot have
        return json.dumps(value, default=str, separators=(",", ":"))
