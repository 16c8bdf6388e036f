"""The token bucket in random histories: at most burst + qps x seconds, namespaces in turns, and no
token withheld.
"""

from __future__ import annotations

from itertools import pairwise

import anyio
from hypothesis import example, given
from hypothesis import strategies as st

from berth.actors.client.rate_limit import RateLimit, counted_for
from berth.actors.client.token_bucket import TokenBucket
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


async def test_namespaces_take_turns() -> None:
    clock = VirtualClock()
    limit = RateLimit(1.0, 1, clock)
    went: list[str] = []

    async def wait(request: str) -> None:
        await limit.wait_turn(request[0])
        went.append(request)

    async with anyio.create_task_group() as group:
        for request in ("a0", "a1", "a2", "a3", "b0", "c0"):
            group.start_soon(wait, request)
        await clock.advance(2.0)
        group.start_soon(wait, "d0")
        group.start_soon(wait, "b1")
        await clock.advance(6.0)
    assert went == ["a0", "a1", "b0", "c0", "a2", "d0", "b1", "a3"]


async def test_a_request_is_counted_for_whom_it_is_made() -> None:
    clock = VirtualClock()
    limit = RateLimit(1.0, 1, clock)
    went: list[str] = []

    async def wait(request: str, payer: str) -> None:
        with counted_for(payer):
            await limit.wait_turn(request[0])
        went.append(request)

    async with anyio.create_task_group() as group:
        for request, payer in (("a0", ""), ("a1", ""), ("a2", ""), ("a3", "b"), ("b0", "")):
            group.start_soon(wait, request, payer)
        await clock.advance(6.0)
    assert went == ["a0", "a1", "a3", "a2", "b0"]


Request = tuple[float, str, float | None]
REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 20).map(lambda tenths: tenths / 10),
        st.sampled_from(["", "a", "b"]),
        st.none() | st.integers(1, 40).map(lambda tenths: tenths / 10),
    ),
    max_size=30,
)


@given(requests=REQUESTS, qps=st.sampled_from([0.5, 2.0]), burst=st.integers(1, 4))
@example(  # The token of the second is no longer wanted, and so does not shorten the fourth's wait.
    requests=[(0.0, "", None), (1.1, "", 0.1), (1.0, "", None), (0.0, "", None)], qps=0.5, burst=1
)
async def test_a_cancelled_request_holds_back_no_other(
    requests: list[Request], qps: float, burst: int
) -> None:
    """Each request is (seconds after the one before, namespace, seconds until its cancellation)."""
    clock = VirtualClock()
    limit = RateLimit(qps, burst, clock)
    sent: list[tuple[float, int]] = []
    came: dict[int, float] = {}
    gave_up: set[int] = set()

    async def wait(number: int, namespace: str, patience: float | None) -> None:
        scope = anyio.CancelScope()

        async def cancel(seconds: float) -> None:
            await clock.sleep(seconds)
            scope.cancel()

        async with anyio.create_task_group() as own:
            if patience is not None:
                own.start_soon(cancel, patience)
            with scope:
                waited = await limit.wait_turn(namespace)
                sent.append((clock.now(), number))
                assert waited == clock.now() - came[number]
            if scope.cancelled_caught:
                gave_up.add(number)
            own.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for number, (gap, namespace, patience) in enumerate(requests):
            await clock.advance(gap)
            came[number] = clock.now()
            group.start_soon(wait, number, namespace, patience)
        await clock.advance((len(requests) + 1) / qps + 5.0)
    assert {number for _, number in sent} | gave_up == set(range(len(requests)))
    times = [at for at, _ in sent]
    for i, first in enumerate(times):
        for j in range(i, len(times)):
            assert j - i + 1 <= burst + qps * (times[j] - first) + 1e-6
    # In a namespace, the requests go in the order in which they came.
    for namespace in ("", "a", "b"):
        order = [number for _, number in sent if requests[number][1] == namespace]
        assert order == sorted(order)
