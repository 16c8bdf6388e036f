from __future__ import annotations

from berth.actors.runtime.lines import Lines


def lines_of(*items: str) -> Lines[str]:
    """Returns lines whose owners are the first letters of the items."""
    lines: Lines[str] = Lines()
    for item in items:
        lines.append(item[0], item)
    return lines


def test_owners_take_turns() -> None:
    lines = lines_of("a2", "a3", "b0", "c0")
    lines.put_first("a", ["a0", "a1"])
    lines.put_first("d", [])
    assert len(lines) == 6
    assert [lines.take() for _ in range(7)] == ["a0", "b0", "c0", "a1", "a2", "a3", None]
    lines.append("a", "a4")
    lines.clear()
    assert lines.take() is None
    assert not lines


def test_the_next_item_is_seen_before_it_is_taken() -> None:
    lines = lines_of("a0", "b0", "a1")
    assert [(lines.peek(), lines.take()) for _ in range(4)] == [
        ("a0", "a0"),
        ("b0", "b0"),
        ("a1", "a1"),
        (None, None),
    ]


def test_an_item_is_removed_from_any_place() -> None:
    lines = lines_of("a0", "a1", "a2", "b0")
    lines.remove("a", "a1")
    lines.remove("b", "b0")
    assert len(lines) == 2
    assert [lines.take() for _ in range(3)] == ["a0", "a2", None]


def test_an_owner_whose_first_item_is_removed_keeps_its_turn() -> None:
    lines = lines_of("a0", "b0", "a1")
    lines.remove("a", "a0")
    assert [lines.take() for _ in range(3)] == ["a1", "b0", None]
