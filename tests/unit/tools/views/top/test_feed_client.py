from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from berth.tools.answers.feed.feed import Frame, event_of
from berth.tools.views.top import feed_client
from berth.tools.views.top.cluster_model import Event, FeedBegan
from berth.tools.views.top.feed_client import events_of
from berth.tools.views.top.view_source import LostError
from tests.kit.page import QUIET, node_of, pod_of

FRAME = Frame(nodes=[node_of("a")], pods=[pod_of("x/\n\n1")], gone_pods=["x/2"])


async def events(*chunks: bytes) -> list[Event]:
    async def read() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return [event async for event in events_of(read())]


@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_events_are_read_however_they_are_cut(size: int) -> None:
    sent = [("begin", None), ("frame", FRAME), ("news", 1), ("glance", QUIET), ("frame", Frame())]
    body = b"".join(event_of(name, data) for name, data in sent)
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    assert await events(*chunks) == [FeedBegan(), FRAME, QUIET, Frame()]


async def test_a_cluster_without_a_scheduler_has_no_glance() -> None:
    assert await events(event_of("glance", None), event_of("begin", None)) == [FeedBegan()]


async def test_the_rest_of_an_event_is_left_out_when_the_body_ends() -> None:
    assert await events(event_of("begin", None) + event_of("glance", QUIET)[:-1]) == [FeedBegan()]


async def test_an_event_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_client, "MOST_BYTES", 100)
    with pytest.raises(LostError, match="too long"):
        await events(b"x" * 60, b"x" * 60)
