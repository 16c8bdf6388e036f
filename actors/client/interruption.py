"""Why a list or a watch ended before its time, and what kind of end that is."""

from __future__ import annotations

import msgspec

from .reflector_state import RequestEnd
from .rest import ApiError, ConnectionFailedError

ERRORS = {
    400: RequestEnd.UNSUPPORTED,
    410: RequestEnd.GONE,
    422: RequestEnd.UNSUPPORTED,
    429: RequestEnd.BUSY,
}
NOT_LISTED = (RequestEnd.UNSUPPORTED, RequestEnd.REFUSED)
# A server sends the objects of a streamed list one after another. kube-apiserver waits 3 s at most
# until its cache is fresh, and sends the bookmark that ends the list within 1.25 s.
STALLED_SECONDS = 5.0


class KindUnlisted(msgspec.Struct, frozen=True):
    """The server does not list the kind. It does not have the kind (`absent`), or it refuses to
    list it.
    """

    problem: str
    absent: bool = False


class InterruptedWatchError(Exception):
    """The list or watch ended; `unlisted` is set if the server does not list the kind."""

    def __init__(
        self,
        how: RequestEnd,
        why: str,
        retry_after: float | None = None,
        unlisted: KindUnlisted | None = None,
    ) -> None:
        super().__init__(why)
        self.how = how
        self.retry_after = retry_after
        self.unlisted = unlisted


def interruption(failure: ApiError | ConnectionFailedError) -> InterruptedWatchError:
    if isinstance(failure, ConnectionFailedError):
        return InterruptedWatchError(RequestEnd.BROKEN, str(failure))
    other = RequestEnd.BROKEN if failure.code >= 500 else RequestEnd.REFUSED
    return InterruptedWatchError(ERRORS.get(failure.code, other), str(failure), failure.retry_after)


def stalled_error() -> InterruptedWatchError:
    why = f"no object came for {STALLED_SECONDS:g} s, and no end of the list"
    return InterruptedWatchError(RequestEnd.STALLED, why)


def unlisted(path: str, failure: ApiError | ConnectionFailedError) -> InterruptedWatchError:
    """Returns what a failure of a list means: perhaps that the server does not list the kind."""
    ended = interruption(failure)
    if isinstance(failure, ConnectionFailedError) or ended.how not in NOT_LISTED:
        return ended
    *before, resource = path.strip("/").split("/")
    group = f" in {before[1]}" if before[0] == "apis" else ""
    absent = failure.code == 404
    kind = KindUnlisted(f"cannot list {resource}{group} at the cluster scope: {failure}", absent)
    how = RequestEnd.ABSENT if absent else RequestEnd.REFUSED
    return InterruptedWatchError(how, str(failure), None, kind)
