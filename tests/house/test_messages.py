"""No message is ignored in silence: its receiver has a case for it, and each match ends in
assert_never.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from berth.actors.mailboxes import Mailboxes
from tests.docs.blocks import ROOT

ACTORS = ROOT / "actors"
# The union of the messages by the folder of the actor that takes them.
MAILBOXES = {
    name: {message.__name__ for message in get_args(get_args(mailbox)[0])}
    for name, mailbox in get_type_hints(Mailboxes).items()
}
MATCHING = sorted(
    path
    for path in (*ACTORS.glob("*/actor.py"), *ACTORS.glob("*/state.py"))
    if "match " in path.read_text()
)


def matches(source: str) -> Iterator[ast.Match]:
    return (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Match))


def handled(source: str) -> set[str]:
    """Returns the messages that `match message` takes, whatever is in them."""
    names = set()
    for match in matches(source):
        if ast.unparse(match.subject) != "message":
            continue
        for case in match.cases:
            pattern = case.pattern
            for each in pattern.patterns if isinstance(pattern, ast.MatchOr) else [pattern]:
                if isinstance(each, ast.MatchClass) and not case.guard and takes_all(each):
                    names.add(ast.unparse(each.cls))
    return names


def takes_all(pattern: ast.MatchClass) -> bool:
    parts = (*pattern.patterns, *pattern.kwd_patterns)
    return all(isinstance(part, ast.MatchAs) and part.pattern is None for part in parts)


def ends_in_assert_never(match: ast.Match) -> bool:
    *_, last = match.cases
    return ast.unparse(last) == f"case _:\n    assert_never({ast.unparse(match.subject)})"


@pytest.mark.parametrize("actor", MAILBOXES)
def test_every_message_of_a_mailbox_has_a_case(actor: str) -> None:
    modules = (ACTORS / actor / "state.py", ACTORS / actor / "actor.py")
    cases = {name for module in modules for name in handled(module.read_text())}
    assert MAILBOXES[actor]
    assert MAILBOXES[actor] - cases == set()


@pytest.mark.parametrize("path", MATCHING, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_match_of_an_actor_ends_in_assert_never(path: Path) -> None:
    open_ended = [
        match.lineno for match in matches(path.read_text()) if not ends_in_assert_never(match)
    ]
    assert open_ended == []


@pytest.mark.parametrize(
    ("case", "is_handled"),
    [
        ("Placed()", True),
        ("Placed(pod, _)", True),
        ("Placed(pod=pod) | Bound()", True),
        ("Placed() if pod", False),
        ("Placed('p')", False),
        ("_", False),
    ],
)
def test_a_case_for_some_values_is_no_case_for_a_message(case: str, is_handled: bool) -> None:
    source = f"match message:\n    case {case}:\n        pass"
    assert ("Placed" in handled(source)) is is_handled
    assert not ends_in_assert_never(next(matches(source)))
