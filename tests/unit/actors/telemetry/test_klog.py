"""The formats, against what Go's strconv, encoding/json and klog's textlogger print."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.actors.telemetry.klog import number, pair, quoted, render_json


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '""'),
        ("plain text", '"plain text"'),
        ('a "b" \\c', r'"a \"b\" \\c"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        (":\x00:z0\x1b\x7f", r'":\x00:z0\x1b\x7f"'),
        ("Größe 界 🙂", '"Größe 界 🙂"'),
        ("\u00a0\u200b\ufeff", r'"\u00a0\u200b\ufeff"'),
        ("\U000e0001", r'"\U000e0001"'),
        (b"\xff".decode("utf-8", "surrogateescape"), r'"\xff"'),
        ("\ud800", '"\ufffd"'),
    ],
)
def test_strings_are_quoted_as_go_quotes_them(text: str, expected: str) -> None:
    assert quoted(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0"),
        (5.0, "5"),
        (0.003123, "0.003123"),
        (0.00001, "0.00001"),
        (1.5e-6, "0.0000015"),
        (1e-7, "1e-7"),
        (1.25e-10, "1.25e-10"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (-2.5, "-2.5"),
        (float("inf"), '"inf"'),
    ],
)
def test_numbers_are_those_of_gos_json(value: float, expected: str) -> None:
    assert number(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("n", ' k="n"'),
        ("one\ntwo", " k=<\n\tone\n\ttwo\n >"),
        ("one\ntwo\n", " k=<\n\tone\n\ttwo\n >"),
        (True, " k=true"),
        (None, " k=null"),
        (3, " k=3"),
        (["a", 'b"<>&'], r' k=["a","b\"\u003c\u003e\u0026"]'),
        ({"NodeResourcesFit": {}}, ' k={"NodeResourcesFit":{}}'),
        (ValueError("no"), ' k="no"'),
    ],
)
def test_values_are_formatted_as_klog_formats_them(value: object, expected: str) -> None:
    assert pair("k", value) == expected


def line(level: str, **fields: Any) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(render_json(level, {**fields, "v": 3, "event": "m"}))
    del shown["ts"], shown["caller"]
    return shown


def test_json_shows_severities_as_zap_does() -> None:
    assert line("info", a=1) == {"msg": "m", "v": 3, "a": 1}
    assert line("error", error="e", a=1) == {"msg": "m", "a": 1, "err": "e"}
    assert line("warning") == {"msg": "m", "v": 3, "severity": "warning"}


def test_json_has_objects_for_the_names_of_pods() -> None:
    shown = line("info", pod="default/web", victim="web", node="n")
    assert shown["pod"] == {"name": "web", "namespace": "default"}
    assert (shown["victim"], shown["node"]) == ({"name": "web"}, "n")


def test_json_bears_what_is_no_utf_8() -> None:
    assert line("info", path="a\udcff", many=["\ud800"])["msg"] == "m"
