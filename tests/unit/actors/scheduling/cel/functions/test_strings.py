"""Functions of strings, with the examples of cel-go's and Kubernetes' documentation."""

from __future__ import annotations

import pytest

from tests.unit.actors.scheduling.cel.expressions import outcome


@pytest.mark.parametrize(
    "expression",
    [
        "'abc'.contains('b')",
        "'abc'.startsWith('a')",
        "'abc'.endsWith('c')",
        "'abc'.matches('^a.c$')",
        "matches('abc', 'b')",
        "'hello'.charAt(4) == 'o'",
        "'tacocat'.charAt(7) == ''",
        "'hello mellow'.indexOf('') == 0",
        "'hello mellow'.indexOf('ello') == 1",
        "'hello mellow'.indexOf('jello') == -1",
        "'hello mellow'.indexOf('', 2) == 2",
        "'hello mellow'.indexOf('ello', 2) == 7",
        "'hello mellow'.indexOf('ello', 20) == -1",
        "'hello mellow'.lastIndexOf('') == 12",
        "'hello mellow'.lastIndexOf('ello') == 7",
        "'hello mellow'.lastIndexOf('jello') == -1",
        "'hello mellow'.lastIndexOf('ello', 6) == 1",
        "'TacoCat'.lowerAscii() == 'tacocat'",
        "'TacoCÆt Xii'.upperAscii() == 'TACOCÆT XII'",
        "'hello hello'.replace('he', 'we') == 'wello wello'",
        "'hello hello'.replace('he', 'we', 1) == 'wello hello'",
        "'hello hello'.replace('he', 'we', 0) == 'hello hello'",
        "'ab'.replace('', '_') == '_a_b_'",
        "'hello hello hello'.split(' ') == ['hello', 'hello', 'hello']",
        "'hello hello hello'.split(' ', 0) == []",
        "'hello hello hello'.split(' ', 1) == ['hello hello hello']",
        "'hello hello hello'.split(' ', 2) == ['hello', 'hello hello']",
        "'hello hello hello'.split(' ', -1) == ['hello', 'hello', 'hello']",
        "'abc'.split('') == ['a','b','c']",
        "'abc'.split('', 2) == ['a', 'bc']",
        "'tacocat'.substring(4) == 'cat'",
        "'tacocat'.substring(0, 4) == 'taco'",
        "'  \\ttrim\\n    '.trim() == 'trim'",
        'strings.quote(\'a"b\\n\') == "\\"a\\\\\\"b\\\\n\\""',
        "'%s %d %.2f'.format(['a', 1, 2.375]) == 'a 1 2.38'",
        "'%x %X %b %o'.format([255, 255, 5, 8]) == 'ff FF 101 10'",
        "'%.3f'.format([1234.5]) == '1,234.500'",
        "'%e'.format([1052.032911275]) == '1.052033\u202f\u00d7\u202f10\u2070\u00b3'",
        "'%s'.format([[1, 'a', true]]) == '[1, \"a\", true]'",
        "'%s'.format([{'a': 1.5}]) == '{\"a\":1.500000}'",
        "'100%%'.format([]) == '100%'",
        "\"abc 123\".find('[0-9]+') == '123'",
        "\"abc\".find('[0-9]+') == ''",
        "\"123 abc 456\".findAll('[0-9]+') == ['123', '456']",
        "\"123 abc 456\".findAll('[0-9]+', 1) == ['123']",
        "'abc'.findAll('[0-9]+') == []",
        "'abc'.findAll('') == ['', '', '', '']",
        "'baaa'.findAll('a*') == ['', 'aaa']",
        "dyn('abc').contains('b')",
    ],
)
def test_is_true(expression: str) -> None:
    assert outcome(expression) is True


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("'abc'.charAt(5) == ''", "index out of range: 5"),
        ("'abc'.substring(4) == ''", "index out of range: 4"),
        ("'abc'.substring(2, 1) == ''", "invalid substring range. start: 2, end: 1"),
        ("'a'.indexOf('a', -1) == 0", "index out of range: -1"),
        ("[dyn(1)].join() == ''", "no such overload"),
        ("'a'.find(device.driver + '(') == ''", "Illegal regex: error parsing regexp"),
        (
            "'%d'.format([dyn('a')]) == ''",
            "decimal clause can only be used on integers, was given string",
        ),
        ("'%s %s'.format(dyn(['a'])) == ''", "index 1 out of range"),
        (
            "'%d'.format(['a']) == ''",
            "decimal clause can only be used on integers, was given string",
        ),
        (
            "'%s'.format(['a', 'b']) == ''",
            "too many arguments supplied to string.format (expected 1, got 2)",
        ),
    ],
)
def test_fails(expression: str, message: str) -> None:
    assert message in str(outcome(expression))
