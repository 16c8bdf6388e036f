"""YAML is read as kubectl reads it, and hostile texts are refused."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.kube.yaml_documents import MAX_DEPTH, YamlError, documents
from tests.kit.calls import CallCounter


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", []),
        ("# nothing", []),
        ("---\n---\na: 1", [None, {"a": 1}]),
        ("a: b\n---\n- 1\n...\n", [{"a": "b"}, [1]]),
        ("\ufeffa: b", [{"a": "b"}]),
        ("[y, No, on, ~, null, '', 'no', \"1\"]", [[True, False, True, None, None, "", "no", "1"]]),
        ("[0, -7, +7, 0x1F, 017, 0o17, 0b101, 1_000]", [[0, -7, 7, 31, 15, 15, 5, 1000]]),
        ("[08, 1.0, 1.5, 1e3, .5, -.5, 12e-1]", [[8, 1, 1.5, 1000, 0.5, -0.5, 1.2]]),
        ("[18446744073709551615, 18446744073709551616]", [[2**64 - 1, float(2**64)]]),
        (
            "[1e999, 12:30, 2026-01-02, 1.2.3, -, +x, ., 0x, 100m, 1Gi, '']",
            [["1e999", "12:30", "2026-01-02", "1.2.3", "-", "+x", ".", "0x", "100m", "1Gi", ""]],
        ),
        ("{1: a, true: b, 1.5: c}", [{"1": "a", "true": "b", "1.5": "c"}]),
        (
            "[!!str 5, !!int '5', !!float 5, !!bool 'yes', !!null '', ! 5]",
            [["5", 5, 5, True, None, "5"]],
        ),
        ("!!map {a: !!seq [1]}", [{"a": [1]}]),
        ("a: &x {b: 1}\nc: *x", [{"a": {"b": 1}, "c": {"b": 1}}]),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", [{"a": {"b": 1, "c": 2}, "d": {"c": 3, "b": 1}}]),
        (
            "- &x {a: 1}\n- &y {a: 2, b: 2}\n- {a: 3}\n- {<<: [*x, *y]}",
            [[{"a": 1}, {"a": 2, "b": 2}, {"a": 3}, {"a": 1, "b": 2}]],
        ),
        ("'<<': 1", [{"<<": 1}]),
        ("a: |\n  x: [\n  y\n", [{"a": "x: [\ny\n"}]),
    ],
)
def test_a_text_is_read_as_kubectl_reads_it(text: str, values: list[Any]) -> None:
    read = documents(text.encode())
    assert read == values
    assert repr(read) == repr(values)  # 1 is not True, nor 1.0


BOMB = "a0: &a0 [x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30)
)
# Few values, but a million characters in each.
LONG = f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 17)}]\n"
LONG_KEY = f"- &a {{? {'x' * 1_000_000} : 1}}\n- [{', '.join(['*a'] * 17)}]\n"


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"a: [", "did not find expected node content"),
        (b"a: b\n  c: d", "line 2: "),
        (b"a: 1\nb: 2\na: 3", "line 3: the key a occurs twice in the mapping of line 1"),
        (b"x:\n  1: a\n  '1': b", "line 3: the key 1 occurs twice in the mapping of line 2"),
        (b"a: 1\n\xff", "line 2: expected text in UTF-8, got the byte 0xff"),
        (b"\x00\x01\x02", "line 1: "),
        (b"\x7fELF\x02\x01", "line 1: "),
        (
            b"a: !!python/object:os.system {}",
            "line 1: expected a value that JSON can represent, got one with the tag",
        ),
        (
            b"a: !!binary aGk=",
            "line 1: expected a value that JSON can represent, got one with the tag",
        ),
        (b"a: !!set {b}", "line 1: expected a value that JSON can represent, got one with the tag"),
        (
            b"a: !mine b",
            "line 1: expected a value that JSON can represent, got one with the tag !mine",
        ),
        (b"a: !!int b", "line 1: expected int, got 'b'"),
        (b"a: .nan", "line 1: expected a number that JSON can represent, got .nan"),
        (b"a: -.inf", "line 1: expected a number that JSON can represent, got -.inf"),
        (b"~: a", "line 1: expected text as a key, got null"),
        (b"[a]: b", "line 1: expected text as a key, got a collection"),
        (b"a: {<<: 1}", "line 1: <<: expected a mapping"),
        (b"a: *b", "line 1: expected the anchor of the alias *b to end before it"),
        (b"a: &a [*a]", "line 1: expected the anchor of the alias *a to end before it"),
        (b"a: &a b\n---\nc: *a", "line 3: expected the anchor of the alias *a to end before it"),
        (b"[" * 200_000, f"line 1: expected at most {MAX_DEPTH} nested collections"),
        (b"{a: " * 200_000, f"line 1: expected at most {MAX_DEPTH} nested collections"),
        (b"- " * 20_000, f"line 1: expected at most {MAX_DEPTH} nested collections"),
        (BOMB.encode(), "line 7: expected aliases to expand to at most 16 MiB"),
        (LONG.encode(), "line 2: expected aliases to expand to at most 16 MiB"),
        (LONG_KEY.encode(), "line 2: expected aliases to expand to at most 16 MiB"),
    ],
    ids=lambda value: repr(value[:30]) if isinstance(value, bytes) else "",
)
def test_an_invalid_document_is_refused_with_its_line(raw: bytes, problem: str) -> None:
    with CallCounter() as counter, pytest.raises(YamlError) as refused:
        documents(raw)
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)
    assert counter.calls < 2_000, "the size or the depth of the text makes it too expensive"


# YAML has no control characters, and treats some other characters as ends of lines.
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | TEXT,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(TEXT, below, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_a_value_is_read_from_its_json_and_its_yaml(value: Any) -> None:
    (read,) = documents(yaml.safe_dump(value, default_style='"').encode())
    assert read == value
    (read,) = documents(msgspec.json.encode(value))
    assert read == value


def refusal(raw: bytes) -> str:
    """Returns the reason for which bytes are refused, or ""."""
    try:
        documents(raw)
    except YamlError as refused:
        return str(refused)
    return ""


@given(
    st.text("ab:-[]{}&*!|>'\"\n #?,%@`~<1.", max_size=60).map(str.encode) | st.binary(max_size=40)
)
def test_any_bytes_are_read_or_refused_with_a_reason(raw: bytes) -> None:
    assert re.fullmatch(r"(line \d+: .+)?", refusal(raw))
