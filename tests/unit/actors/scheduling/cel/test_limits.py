"""Hostile expressions end soon, with an error that names the limit, and raise nothing else."""

from __future__ import annotations

import inspect
import sys
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.cel import CelError, Selector, selector
from berth.actors.scheduling.cel.declarations import MOST_WORK
from berth.actors.scheduling.kube.devices import Device, DeviceAttribute, DeviceCapacity
from tests.kit.examples import examples

DEVICE = Device(
    attributes={
        "i": DeviceAttribute(int_=3),
        "s": DeviceAttribute(string="text"),
        "b": DeviceAttribute(bool_=True),
        "v": DeviceAttribute(version="1.2.3"),
    },
    capacity={"c": DeviceCapacity(value="1Gi")},
)
OVER = "operation cancelled: actual cost limit exceeded"
# A generous limit for slow machines; each of the expressions takes less than two seconds alone.
SECONDS = 20


def outcome(expression: str) -> str:
    """Returns the result as text, or the error."""
    begin = process_time()
    compiled = Selector(expression)
    try:
        result = compiled.error or str(compiled.matches("d", DEVICE))
    except CelError as problem:
        result = str(problem)
    assert process_time() - begin < SECONDS, expression[:200]
    return result


def nested(count: int, innermost: str, template: str) -> str:
    """Puts an expression into a template `count` times; # stands for the number of the level."""
    for level in range(count):
        innermost = template.replace("EXPRESSION", innermost).replace("#", str(level))
    return innermost


DOUBLED = nested(60, "[1, 2]", "cel.bind(a#, EXPRESSION, [a#, a#])")
TEXT = nested(60, "'ab'", "cel.bind(a#, EXPRESSION, a# + a#)")
LISTS = nested(60, "[1, 2]", "cel.bind(a#, EXPRESSION, a# + a#)")


@pytest.mark.parametrize(
    "expression",
    [
        nested(8, "true", "lists.range(50).all(x#, EXPRESSION)"),
        nested(8, "x0 == x0", "lists.range(50).map(x#, EXPRESSION).size() == 50"),
        "lists.range(1000000000000).size() == 0",
        "lists.range(900000).map(x, x).map(x, x).size() == 0",
        "lists.range(100000).all(x, lists.range(100000).exists(y, y > x))",
        "cel.bind(a, lists.range(100000), lists.range(100000).all(x, size(a + a) > 0))",
        f"{DOUBLED} == {DOUBLED}",
        f"'%s'.format([{DOUBLED}]) == ''",
        f"{DOUBLED}.map(x, x) == {DOUBLED}",
        f"[{DOUBLED}].indexOf({DOUBLED}) == 1",
        f"{TEXT} == 'a'",
        f"{LISTS}.size() == 1",
        nested(60, "'aaaa'", "cel.bind(a#, EXPRESSION, a#.replace('a', a#))") + " == 'a'",
        nested(60, "'aaaa'", "cel.bind(a#, EXPRESSION, '%s%s'.format([a#, a#]))") + " == 'a'",
        nested(60, "'aaaa'", "cel.bind(a#, EXPRESSION, [a#, a#].join(a#))") + " == 'a'",
        "lists.range(2000).sortBy(x, -x).size() == 1",
        "lists.range(2000).distinct().size() == 1",
    ],
    ids=range(17),
)
def test_work_beyond_the_limit_is_cancelled(expression: str) -> None:
    assert outcome(expression) == OVER


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("(" * 10_000, "recursion limit exceeded: 250"),
        ("(" * 5_000 + "true" + ")" * 5_000, "recursion limit exceeded: 250"),
        ("[" * 10_000, "recursion limit exceeded: 250"),
        ("!" * 10_001 + "true", "False"),
        ("-" * 10_000 + "x", "undeclared reference"),
        ("a." * 5_000 + "b", "recursion limit exceeded: 250"),
        ("1 + " * 2_500 + "1 == 1", "recursion limit exceeded: 250"),
        ("true && " * 1_200 + "true", "True"),
        ("true || " * 1_200 + "true", "True"),
        ("true ? true : " * 700 + "true", "recursion limit exceeded: 250"),
        ("x[" * 5_000, "recursion limit exceeded: 250"),
        ("optional.of(1)" + ".optMap(x, x)" * 40 + " == 1", "10000 nodes"),
        ("{" * 10_000, "recursion limit exceeded: 250"),
        ("f(" * 5_000, "recursion limit exceeded: 250"),
        ("'" + "a" * 100_001, "expression code point size exceeds limit"),
        ("9" * 9_000 + " == 1", "invalid int literal"),
        ("0x" + "f" * 9_000 + " == 1", "invalid int literal"),
        ("1e99999 > 1.0", "True"),
        ('device.attributes["d"].s.matches("(a*)*b")', "False"),
        ("'" + "a" * 5_000 + "'.matches('(a|aa)+$')", "True"),
        ("'a'.matches('" + "(" * 2_000 + "a" + ")" * 2_000 + "')", "True"),
        ("'a'.matches('((a{100}){100}){100}')", "invalid matches argument"),
        ("int('" + "9" * 9_000 + "') == 1", "type conversion error"),
        ("quantity('1e999').isInteger()", "False"),
        ("quantity('" + "9" * 9_000 + "') == quantity('1')", "quantities must match"),
        ("'%.9999f'.format([1.0]) == ''", "could not parse formatting clause"),
        ("\ud800 == 1", "token recognition error"),
        ("'\ud800' == 'a'", "False"),
        ("'\ud800'.matches('\ud800') && '\ud800' < 'b'", "False"),
        ("bytes('\ud800') == b''", "False"),
    ],
    ids=range(30),
)
def test_large_and_odd_expressions_are_bounded(expression: str, message: str) -> None:
    assert message in outcome(expression)


def test_nesting_up_to_the_limit_works() -> None:
    assert outcome("(" * 240 + "true" + ")" * 240) == "True"
    assert outcome(" + ".join(["1"] * 240) + " == 240") == "True"
    assert outcome(nested(60, "true", "[1].all(x#, EXPRESSION)")) == "True"


PIECES = st.sampled_from(
    [
        "device",
        "device.attributes",
        "device.capacity",
        'device.attributes["d"]',
        ".i",
        ".s",
        ".b",
        ".v",
        ".c",
        '["d"]',
        '["x"]',
        "true",
        "false",
        "null",
        "1",
        "0",
        "-1",
        "2u",
        "1.5",
        "'a'",
        '"b"',
        "b'c'",
        "r'\\d'",
        "[1,2]",
        "{'a':1}",
        "x",
        "y",
        "_",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ".",
        ",",
        ":",
        "?",
        "!",
        "-",
        "+",
        "*",
        "/",
        "%",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "&&",
        "||",
        "in",
        ".all(x,",
        ".exists(x,",
        ".map(x,",
        ".filter(x,",
        ".exists_one(x,",
        ".transformMap(x,y,",
        "cel.bind(x,",
        ".?s",
        "[?'i']",
        ".orValue(1)",
        "optional.of(",
        ".value()",
        ".size()",
        "size(",
        "has(device.driver)",
        ".matches('a+')",
        ".find('.')",
        ".split('')",
        ".join()",
        ".replace('a','b')",
        "quantity('1')",
        "semver('1.0.0')",
        ".isGreaterThan(",
        ".compareTo(",
        ".major()",
        "int(",
        "string(",
        "double(",
        "type(",
        "dyn(",
        "duration('1s')",
        "timestamp(0)",
        ".getHours()",
        "lists.range(",
        ".sort()",
        ".sum()",
        ".flatten()",
        ".reverse()",
        ".sortBy(x,",
        "sets.contains(",
        "'%s'.format([",
        "url('/a')",
        "ip('::1')",
        "cidr('::/8')",
        "format.date()",
        ".validate(",
        "9223372036854775807",
    ]
)


@given(st.lists(PIECES, max_size=25).map(" ".join))
@examples(2)
def test_no_tokens_raise_another_error(expression: str) -> None:
    assert outcome(expression)


@given(st.text(max_size=200))
@examples()
def test_no_text_raises_another_error(expression: str) -> None:
    assert outcome(expression)


VALUES = st.sampled_from(
    [
        'device.attributes["d"].i',
        'device.attributes["d"].s',
        'device.attributes["d"].b',
        'device.attributes["d"].v',
        'device.capacity["d"].c',
        "dyn([1,2])",
        "dyn({'a':1})",
        "dyn(null)",
        "dyn(1u)",
        "dyn(1.5)",
        "dyn(b'a')",
        "dyn('a')",
        "dyn(optional.of(1))",
        "dyn(int)",
        "dyn(duration('1s'))",
        "dyn(timestamp(0))",
        "dyn(ip('::1'))",
        "dyn(cidr('::/8'))",
        "dyn(url('/a'))",
        "dyn(format.date())",
        "device.attributes",
        "device",
    ]
)
CALLS = st.sampled_from(
    [
        "A+B",
        "A-B",
        "A*B",
        "A/B",
        "A%B",
        "A==B",
        "A!=B",
        "A<B",
        "A<=B",
        "A>B",
        "A>=B",
        "A&&B",
        "A||B",
        "(A?B:A)",
        "A[B]",
        "A[?B]",
        "A.i",
        "A.?i",
        "!A",
        "-A",
        "A.size()",
        "size(A)",
        "[A,B]",
        "{A:B}",
        "(A)in(B)",
        "int(A)",
        "uint(A)",
        "string(A)",
        "double(A)",
        "bytes(A)",
        "bool(A)",
        "type(A)",
        "A.contains(B)",
        "A.matches(B)",
        "A.split(B)",
        "A.join()",
        "A.join(B)",
        "A.replace(B,B)",
        "A.substring(B)",
        "A.charAt(B)",
        "A.indexOf(B)",
        "A.format([B])",
        "A.compareTo(B)",
        "A.isGreaterThan(B)",
        "A.add(B)",
        "A.sort()",
        "A.sum()",
        "A.max()",
        "A.flatten()",
        "A.distinct()",
        "A.slice(B,B)",
        "A.reverse()",
        "A.all(x,B)",
        "A.map(x,B)",
        "A.filter(x,x==B)",
        "A.sortBy(x,B)",
        "A.transformMap(k,v,B)",
        "A.orValue(B)",
        "A.or(B)",
        "A.optMap(x,B)",
        "A.value()",
        "A.getHours()",
        "A.getHours(B)",
        "A.containsIP(B)",
        "A.validate(B)",
        "sets.contains(A,B)",
        "lists.range(A)",
        "has(A.i)",
        "A.first()",
        "duration(A)",
        "timestamp(A)",
        "quantity(A)",
        "semver(A,B)",
        "ip(A)",
        "cidr(A)",
        "url(A)",
        "A.major()",
        "A.findAll(B)",
        "A.getQuery()",
        "A.asInteger()",
        "cel.bind(z,A,z==B)",
        "A.exists_one(x,x==B)",
        "A.isSorted()",
    ]
)


@st.composite
def typed_expressions(draw: st.DrawFn) -> str:
    """Draws an expression that the checker mostly accepts: its operands have unknown types."""
    text = draw(VALUES)
    for call in draw(st.lists(CALLS, min_size=1, max_size=6)):
        other = draw(VALUES)
        joined = "".join({"A": f"({text})", "B": f"({other})"}.get(char, char) for char in call)
        text = f"dyn({joined})"
    return f"{text} == {draw(VALUES)}"


@given(typed_expressions())
@examples(2)
def test_no_types_raise_another_error(expression: str) -> None:
    result = outcome(expression)
    assert result
    assert "internal error" not in result, (expression, result)


# ------------------------------------------------------------------- work that cel-go's cost misses

TEXTS = "'" + "a" * 30 + "'.replace('a', '" + "a" * 40 + "')"
LETTERS = "['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p']"


def work(expression: str) -> int:
    """Returns the units of work of an evaluation that ends with the limit."""
    spent: list[int] = []
    with pytest.raises(CelError, match=OVER):
        Selector(expression).matches("d", DEVICE, spent.append)
    (units,) = spent
    return units


@pytest.mark.parametrize(
    "expression",
    [
        f"{LETTERS}.all(x, {LETTERS}.all(y, '.'.matches('(\\\\pL{{9}}' + x + y + ')?')))",
        f"{LETTERS}.all(x, '.'.matches('\\\\pL{{100}}' + x) || true)",
        f"cel.bind(t, {TEXTS}, lists.range(200).all(x, !isURL(t)))",
        f"cel.bind(t, {TEXTS}, lists.range(200).all(x, duration(t) == duration(t) || true))",
        (
            "lists.range(400).all(x, ['No/' + string(x)].all(z, "
            "timestamp('2020-01-01T00:00:00Z').getHours(z) == 1) || true)"
        ),
        f"cel.bind(t, {TEXTS}.replace('a', '{'a' * 60}'), t.size() > 0)",
        f"cel.bind(t, {TEXTS}, t.findAll('a*b|a').size() > 0)",
        f"lists.range(300).map(x, {TEXTS}.split('')).size() > 0",
    ],
    ids=["compile", "too-large", "url", "duration", "zone", "text", "find", "split"],
)
def test_work_is_counted_where_the_cost_is_small(expression: str) -> None:
    assert work(expression) <= 2 * MOST_WORK


def test_a_constant_pattern_is_compiled_once() -> None:
    expression = "lists.range(2000).all(x, 'abc'.matches('^[a-z]{1,63}$'))"
    assert Selector(expression).matches("d", DEVICE)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        (
            "true || " + " || ".join(f"'a'.matches('\\\\pL{{100}}{i}')" for i in range(20)),
            "patterns",
        ),
        ("optional.of(true)" + ".optMap(x, x)" * 12 + ".orValue(true)", "10000 nodes"),
        (
            "[" + ", ".join("[" * 120 + "]" * 120 for _ in range(60)) + "].size() == 1",
            "too complex",
        ),
    ],
    ids=["patterns", "macros", "types"],
)
def test_compilation_is_bounded(expression: str, problem: str) -> None:
    assert problem in Selector(expression).error


def test_the_stack_of_the_caller_does_not_matter() -> None:
    deep = "!" * 200 + "true"

    def below(frames: int) -> bool:
        if frames:
            return below(frames - 1)
        return Selector(deep).matches("d", DEVICE)

    assert below(sys.getrecursionlimit() - len(inspect.stack()) - 30)


def test_what_is_kept_is_bounded_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.actors.scheduling.cel.selectors.MOST_KEPT", 10_000)
    first = selector("device.driver == 'first'")
    assert selector("device.driver == 'first'") is first
    for number in range(100):
        selector(f"device.driver == 'd{number}'")
    assert selector("device.driver == 'first'") is not first
