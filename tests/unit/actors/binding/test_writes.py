"""The counts of the bindings that are being written, and whom they make wait."""

from __future__ import annotations

from berth.actors.binding.writes import FEW, MOST, MOST_OF_NAMESPACE, Writes


def test_a_namespace_pauses_at_its_share_and_goes_on_when_a_quarter_has_ended() -> None:
    writes = Writes()
    assert [writes.began("a") for _ in range(MOST_OF_NAMESPACE - 1)] == [False] * (
        MOST_OF_NAMESPACE - 1
    )
    assert writes.began("a")
    assert not writes.began("a"), "it pauses already"
    assert not writes.began("b")
    ended = [writes.ended("a") for _ in range(MOST_OF_NAMESPACE + 1)]
    assert ended.index(True) == MOST_OF_NAMESPACE - FEW
    assert ended.count(True) == 1


def test_a_namespace_may_pause_again() -> None:
    writes = Writes()
    for _ in range(2):
        assert [writes.began("a") for _ in range(MOST_OF_NAMESPACE)].count(True) == 1
        assert [writes.ended("a") for _ in range(MOST_OF_NAMESPACE)].count(True) == 1
    assert not writes.are_too_many()


def test_the_bindings_of_all_namespaces_make_the_cycle_wait() -> None:
    writes = Writes()
    for number in range(MOST - 1):
        writes.began(str(number))
    assert not writes.are_too_many()
    writes.began("one more")
    assert writes.are_too_many()
    writes.ended("0")
    assert not writes.are_too_many()
