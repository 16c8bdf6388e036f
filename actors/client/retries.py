"""Repeats a request whose failure may be transient.

Mirrors kube-scheduler's PatchPodStatus and, since 1.37, its binding call, with their back-off and
the errors after which they try again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..runtime.backoff import Rng
from ..runtime.clock import Clock
from .rest import ApiError, ConnectionFailedError

T = TypeVar("T")
DELAYS = (0.01, 0.05, 0.25)  # seconds
JITTER = 0.1
TRANSIENT_REASONS = ("Conflict", "InternalError", "ServiceUnavailable")


async def with_retries(request: Callable[[], Awaitable[T]], clock: Clock, rng: Rng) -> T:
    """Returns the answer to a request, which is sent up to four times within 0.4 seconds.

    Raises the failure of the last one, or the first that is not transient.
    """
    for delay in DELAYS:
        try:
            return await request()
        except (ApiError, ConnectionFailedError) as failure:
            if not _is_transient(failure):
                raise
        await clock.sleep(delay * (1.0 + JITTER * rng.random()))
    return await request()


def _is_transient(failure: ApiError | ConnectionFailedError) -> bool:
    """True for a conflict, an error inside the API server, and a refused connection."""
    if isinstance(failure, ConnectionFailedError):
        return isinstance(failure.__cause__, ConnectionRefusedError)
    if failure.reason:
        return failure.reason in TRANSIENT_REASONS
    return failure.code == 409 or (failure.code >= 500 and failure.code != 504)
