"""TokenReview and SubjectAccessReview: the questions that are delegated to the API server."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import TypeVar

import anyio
import msgspec

from berth.actors.client.access import Calls
from berth.actors.client.rest import ApiError, ConnectionFailedError
from berth.actors.runtime.backoff import Backoff, Rng
from berth.actors.runtime.clock import Clock
from berth.actors.scheduling.kube.meta import Object
from berth.actors.server.identity import User
from berth.actors.server.remembered import QuestionFailedError, Remembered

TOKENS_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ATTEMPTS = 5
BACKOFF = Backoff(0.5, 2.0, 0.2)
LIMIT_SECONDS = 10.0
MOST_TOKENS = 4096
MOST_VERDICTS = 8192
R = TypeVar("R")


class ReviewFailedError(QuestionFailedError):
    """The API server gave no answer to a review."""


class UserInfo(Object, frozen=True, kw_only=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class TokenReviewStatus(Object, frozen=True, kw_only=True):
    authenticated: bool = False
    user: UserInfo = UserInfo()
    error: str = ""


class TokenReview(Object, frozen=True, kw_only=True):
    status: TokenReviewStatus = TokenReviewStatus()


class AccessReviewStatus(Object, frozen=True, kw_only=True):
    allowed: bool = False
    denied: bool = False
    reason: str = ""


class SubjectAccessReview(Object, frozen=True, kw_only=True):
    status: AccessReviewStatus = AccessReviewStatus()


class TokenReviews:
    """Answers are remembered for `seconds`, whether the token is good or not. Tokens are not kept,
    only their keyed hashes.
    """

    def __init__(self, calls: Calls, clock: Clock, rng: Rng, seconds: float) -> None:
        self._calls = calls
        self._clock = clock
        self._rng = rng
        self._key = secrets.token_bytes(32)
        self._known: Remembered[bytes, User | None] = Remembered(
            clock, MOST_TOKENS, lambda _: seconds
        )

    async def user_of(self, token: str) -> User | None:
        """The token's user; None if the token is not good. Raises ReviewFailedError."""
        hashed = hmac.digest(self._key, token.encode(errors="surrogateescape"), hashlib.sha256)
        return await self._known.get(hashed, lambda: self._ask(token))

    async def _ask(self, token: str) -> User | None:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        }
        review = await reviewed(self._calls, self._clock, self._rng, TOKENS_PATH, TokenReview, body)
        found, user = review.status, review.status.user
        if not found.authenticated:
            return None
        return User(user.username, user.uid, user.groups, user.extra)


class AccessReviews:
    """Answers are remembered for `allowed_seconds` or `denied_seconds`."""

    def __init__(
        self,
        calls: Calls,
        clock: Clock,
        rng: Rng,
        allowed_seconds: float,
        denied_seconds: float,
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._rng = rng
        self._known: Remembered[bytes, AccessReviewStatus] = Remembered(
            clock,
            MOST_VERDICTS,
            lambda status: allowed_seconds if status.allowed else denied_seconds,
        )

    async def verdict(self, user: User, verb: str, path: str) -> AccessReviewStatus:
        """Whether the user may. Raises ReviewFailedError."""
        spec: Mapping[str, object] = {
            "user": user.name,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        key = hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).digest()
        return await self._known.get(key, lambda: self._ask(spec))

    async def _ask(self, spec: Mapping[str, object]) -> AccessReviewStatus:
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": spec,
        }
        review = await reviewed(
            self._calls, self._clock, self._rng, ACCESS_PATH, SubjectAccessReview, body
        )
        return review.status


async def reviewed(
    calls: Calls, clock: Clock, rng: Rng, path: str, kind: type[R], body: object
) -> R:
    """The API server's answer to a review. A failure that may pass is followed by another attempt.
    Raises ReviewFailedError.
    """
    failure = f"no answer within {LIMIT_SECONDS:g} s"
    with anyio.move_on_after(LIMIT_SECONDS):
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await calls.call("POST", path, kind, body)
            except ApiError as refused:
                failure = str(refused)
                if refused.code < 500 and refused.code != 429:
                    break
            except ConnectionFailedError as failed:
                failure = str(failed)
            await clock.sleep(BACKOFF.delay(attempt, rng) if attempt < ATTEMPTS else 0.0)
    raise ReviewFailedError(failure)
