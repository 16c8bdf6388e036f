"""What is wrong with a text is told as Go tells it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.tools.kubernetes.api.requests.json_problems import END, go_text, json_problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", END),
        ("  ", END),
        ("{", END),
        ('{"a', END),
        ('{"a": 1', END),
        ("nul", END),
        ("1.", END),
        ("x", "invalid character 'x' looking for beginning of value"),
        ("{a}", "invalid character 'a' looking for beginning of object key string"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a": 1 "b"}', "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("{} {", "invalid character '{' after top-level value"),
        ('"\n"', r"invalid character '\n' in string literal"),
        (r'"\x"', "invalid character 'x' in string escape code"),
        (r'"\u12G4"', r"invalid character 'G' in \u hexadecimal character escape"),
        ("-a", "invalid character 'a' in numeric literal"),
        ("01", "invalid character '1' after top-level value"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1ex", "invalid character 'x' in exponent of numeric literal"),
        ("trux", "invalid character 'x' in literal true (expecting 'e')"),
        ("[" * 5000, "exceeded max depth"),
        ('{"a": [1.5e-3, -0, "\\u00e4", null, true, {}]}', ""),
    ],
)
def test_the_problem_of_a_text(text: str, problem: str) -> None:
    assert json_problem(text.encode()) == problem


@given(st.text(alphabet='{}[],:"\\ntrue1.-e+ ', max_size=20))
def test_a_text_has_a_problem_unless_it_can_be_read(text: str) -> None:
    try:
        msgspec.json.decode(text)
        readable = True
    except msgspec.DecodeError:
        readable = False
    assert (not json_problem(text.encode())) == readable


def test_a_value_is_printed_as_go_prints_it() -> None:
    value = {"spec": {"b": [1, "x", None], "a": True}}
    assert go_text(value) == "map[spec:map[a:true b:[1 x <nil>]]]"
