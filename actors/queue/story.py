"""The latest moves of each pod, with the event and the plugin behind each; and the counts of all
moves.

The memory is bounded: the latest moves of the pods that moved last. A pod that is gone is
remembered until other pods need its room, so that it can be explained afterwards. The counts are
for kube-scheduler's metric queue_incoming_pods_total.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping

from ..messages.queue import StoryStep

LONGEST_STORY = 16
MOST_STORIES = 10_000


class Stories:
    def __init__(self, most: int = MOST_STORIES, longest: int = LONGEST_STORY) -> None:
        self._most = most
        self._longest = longest
        self._stories: OrderedDict[str, list[StoryStep]] = OrderedDict()
        self._incoming: Counter[tuple[str, str]] = Counter()

    def add(self, key: str, step: StoryStep) -> None:
        self._incoming[step.queue, step.event] += 1
        story = self._stories.get(key)
        if story is None:
            self._stories[key] = [step]
            if len(self._stories) > self._most:
                self._stories.popitem(last=False)
            return
        story.append(step)
        if len(story) > self._longest:
            del story[0]
        self._stories.move_to_end(key)

    def of(self, key: str) -> tuple[StoryStep, ...]:
        """Returns the latest moves of a pod, the oldest first; none if they are forgotten."""
        return tuple(self._stories.get(key, ()))

    def incoming(self) -> Mapping[tuple[str, str], int]:
        """Returns how many pods have come to each queue by each event."""
        return self._incoming
