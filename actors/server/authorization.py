"""Authorization: whether a user may see a page, as kube-scheduler decides it with delegated
authorization.

Members of system:masters may see every page, and everybody may see the paths that are always
allowed. A SubjectAccessReview decides about all else. Without an API server for reviews, the
request is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .identity import User
from .reviews import AccessReviews

PRIVILEGED = "system:masters"


class Decision(msgspec.Struct, frozen=True):
    """The result of an authorization. `reason` is the API server's reason for a refusal.

    `denied` is true if an authorizer forbade the request, false if no authorizer allowed it.
    """

    allowed: bool
    reason: str = ""
    denied: bool = False


ALLOWED = Decision(allowed=True)


class OpenPaths:
    """Paths that need no permission. A path that ends with `*` stands for all that begin with
    it.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        """Reads the paths. Raises ValueError for a `*` that is not at the end."""
        shorn = [path.removeprefix("/") for path in paths]
        for path in shorn:
            if "*" in path[:-1]:
                raise ValueError(
                    f'--authorization-always-allow-paths: only trailing * allowed in "{path}"'
                )
        self._prefixes = tuple(path[:-1] for path in shorn if path.endswith("*"))
        self._paths = frozenset(path for path in shorn if not path.endswith("*"))

    def __contains__(self, path: str) -> bool:
        path = path.removeprefix("/")
        return path in self._paths or path.startswith(self._prefixes)


class Authorizer:
    def __init__(self, always: OpenPaths, reviews: AccessReviews | None) -> None:
        self._always = always
        self._reviews = reviews

    async def decide(self, user: User, method: str, path: str) -> Decision:
        """Decides about a request. Raises ReviewFailedError if the API server does not answer."""
        if PRIVILEGED in user.groups or path in self._always:
            return ALLOWED
        if self._reviews is None:
            return Decision(allowed=False)
        status = await self._reviews.verdict(user, method.lower(), path)
        return Decision(status.allowed and not status.denied, status.reason, status.denied)
