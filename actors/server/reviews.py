"""TokenReview and SubjectAccessReview: decisions that are delegated to the API server."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import anyio
import msgspec

from ..client.access import Calls
from ..client.rest import ApiError, ConnectionFailedError
from ..runtime.backoff import Backoff, Rng
from ..runtime.clock import Clock
from ..scheduling.kube.meta import Object
from .identity import User
from .metrics.access import AccessMeasures
from .remembered import QuestionFailedError, RememberedAnswers

TOKENS, ACCESS = "authentication.k8s.io/v1", "authorization.k8s.io/v1"
ATTEMPTS = 5
BACKOFF = Backoff(0.5, 2.0, 0.2)
LIMIT_SECONDS = 10.0
MOST_TOKENS = 4096
MOST_VERDICTS = 8192
CREATED, NO_ANSWER = "201", "<error>"  # the names of the results in metrics
R = TypeVar("R")


class ReviewFailedError(QuestionFailedError):
    """The API server gave no answer to a review."""


class TokenRejectedError(QuestionFailedError):
    """The API server could not authenticate a token, and the message says why."""


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
    """The reviews of tokens.

    Answers are remembered for `seconds`, whether the token is valid or not. Errors are not
    remembered: a valid token may be accepted the next time. Tokens are kept as keyed hashes only.
    """

    def __init__(
        self,
        calls: Calls,
        clock: Clock,
        rng: Rng,
        seconds: float,
        measures: AccessMeasures,
    ) -> None:
        self._measures = measures
        self._clock = clock
        measure = partial(measures.reviewed, "authn")
        self._review = partial(reviewed, calls, clock, rng, TOKENS, TokenReview, measure)
        self._key = secrets.token_bytes(32)
        self._answers: RememberedAnswers[bytes, User | None] = RememberedAnswers(
            clock, MOST_TOKENS, lambda _: seconds
        )

    async def user_of(self, token: str) -> User | None:
        """Returns the token's user; None if the token is not valid. Raises ReviewFailedError, or
        TokenRejectedError.
        """
        hashed = hmac.digest(self._key, token.encode(errors="surrogateescape"), hashlib.sha256)
        began, missed = self._clock.now(), False

        async def ask() -> User | None:
            nonlocal missed
            missed = True
            return await self._ask(token)

        try:
            return await self._answers.get(hashed, ask)
        finally:
            self._measures.token_looked_up(self._clock.now() - began, hit=not missed)

    async def _ask(self, token: str) -> User | None:
        try:
            review = await self._review({"token": token})
        except ReviewFailedError:
            self._measures.token_fetched(ok=False)
            raise
        verdict, user = review.status, review.status.user
        rejected = not verdict.authenticated
        self._measures.token_fetched(ok=not (rejected and verdict.error))
        if rejected and verdict.error:
            raise TokenRejectedError(verdict.error)
        if rejected:
            return None
        return User(user.username, user.uid, user.groups, user.extra)


class AccessReviews:
    """The reviews of access. Answers are remembered for `allowed_seconds` or `denied_seconds`."""

    def __init__(
        self,
        calls: Calls,
        clock: Clock,
        rng: Rng,
        allowed_seconds: float,
        denied_seconds: float,
        measures: AccessMeasures,
    ) -> None:
        measure = partial(measures.reviewed, "authz")
        self._review = partial(reviewed, calls, clock, rng, ACCESS, SubjectAccessReview, measure)
        self._answers: RememberedAnswers[bytes, AccessReviewStatus] = RememberedAnswers(
            clock,
            MOST_VERDICTS,
            lambda status: allowed_seconds if status.allowed else denied_seconds,
        )

    async def verdict(self, user: User, verb: str, path: str) -> AccessReviewStatus:
        """Returns whether the user may do this. Raises ReviewFailedError."""
        spec: Mapping[str, object] = {
            "user": user.name,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        key = hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).digest()
        return await self._answers.get(key, lambda: self._ask(spec))

    async def _ask(self, spec: Mapping[str, object]) -> AccessReviewStatus:
        return (await self._review(spec)).status


async def reviewed(
    calls: Calls,
    clock: Clock,
    rng: Rng,
    api: str,
    kind: type[R],
    measure: Callable[[str, float], None],
    spec: Mapping[str, object],
) -> R:
    """Returns the API server's answer to a review of this kind. After a failure that may pass, it
    tries again. `measure` takes the status of each answer and the seconds until it came. Raises
    ReviewFailedError.
    """
    path = f"/apis/{api}/{kind.__name__.lower()}s"
    body = {"apiVersion": api, "kind": kind.__name__, "spec": spec}
    failure = f"no answer within {LIMIT_SECONDS:g} s"
    with anyio.move_on_after(LIMIT_SECONDS):
        for attempt in range(1, ATTEMPTS + 1):
            began, code = clock.now(), NO_ANSWER
            try:
                answer = await calls.call("POST", path, kind, body)
            except ApiError as refused:
                code, failure = str(refused.code), str(refused)
                if refused.code < 500 and refused.code != 429:
                    break
            except ConnectionFailedError as failed:
                failure = str(failed)
            else:
                code = CREATED
                return answer
            finally:
                measure(code, clock.now() - began)
            await clock.sleep(BACKOFF.delay(attempt, rng) if attempt < ATTEMPTS else 0.0)
    raise ReviewFailedError(failure)
