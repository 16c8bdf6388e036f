"""The memory of what moved each pod."""

from __future__ import annotations

from berth.actors.messages.queue import Place, StoryStep
from berth.actors.queue.story import Stories


def test_the_memory_of_stories_is_bounded() -> None:
    stories = Stories(most=3, longest=2)
    for name in ("a", "b", "a", "a", "c", "d"):
        stories.add(name, StoryStep(0.0, Place.ACTIVE, "e"))
    assert [len(stories.of(name)) for name in "abcd"] == [2, 0, 1, 1]
    assert stories.incoming() == {("active", "e"): 6}
