"""The token bucket in random histories: at most burst + qps x seconds, in order, and no token
withheld.
"""

from __future__ import annotations

from itertools import pairwise

import anyio
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.client.rate_limit import RateLimit, TokenBucket
from tests.kit.clock import VirtualClock

GAPS = st.lists(st.integers(0, 3000).map(lambda ms: ms / 1000), min_size=1, max_size=60)


@given(gaps=GAPS, qps=st.sampled_from([0.5, 1.0, 5.0, 50.0]), burst=st.integers(0, 20))
def test_no_span_of_time_holds_too_many(gaps: list[float], qps: float, burst: int) -> None:
    bucket, now = TokenBucket(qps, burst), 0.0
    sent: list[float] = []
    for gap in gaps:
        now += gap
        delay = bucket.take(now)
        bucket.validate()
        assert delay >= 0
        # A request waits only if the bucket is empty: one more request just before it would
        # have exceeded the limit.
        if delay > 0:
            assert len(sent) >= max(burst, 1)
        sent.append(now + delay)
    assert all(later >= earlier - 1e-6 for earlier, later in pairwise(sent))
    for i, first in enumerate(sent):
        for j in range(i, len(sent)):
            assert j - i + 1 <= max(burst, 1) + qps * (sent[j] - first) + 1e-6


def test_a_clock_that_steps_back_gives_no_tokens() -> None:
    bucket = TokenBucket(1.0, 1)
    assert [bucket.take(10.0), bucket.take(5.0), bucket.take(10.0)] == [0.0, 1.0, 2.0]


async def test_waiters_go_in_order_at_their_rate() -> None:
    clock, went = VirtualClock(), []

    async def wait(limit: RateLimit, number: int) -> None:
        await limit.wait_turn()
        went.append((number, clock.now()))

    limit = RateLimit(2.0, 2, clock)
    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(wait, limit, number)
        await clock.advance(2.0)
    assert went == [(0, 0.0), (1, 0.0), (2, 0.5), (3, 1.0), (4, 1.5)]
    unlimited = RateLimit(0.0, 0, clock)
    for _ in range(1000):
        await unlimited.wait_turn()
    assert clock.now() == 2.0
