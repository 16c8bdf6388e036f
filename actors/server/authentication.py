"""Authentication: who sends a request, as kube-scheduler decides it with delegated authentication.

First the headers of an authenticating proxy are tried, then the client's certificate, then a bearer
token. If none succeeds, a request with a credential that failed is refused, and any other request
is anonymous. No credential is ever logged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from urllib.parse import unquote

import msgspec
from multidict import MultiMapping

from ..scheduling.framework.logger import get_logger
from .client_certificates import CertificateError, common_name, seconds_left, signed_by, user_of
from .identity import ANONYMOUS, User, authenticated
from .metrics.access import AccessMeasures
from .request import Request
from .reviews import ReviewFailedError, TokenRejectedError, TokenReviews

log = get_logger(__name__)


class ProxyHeaders(msgspec.Struct, frozen=True):
    """The headers in which an authenticating proxy names the user, and the common names that such a
    proxy may have; any name if there are none.
    """

    usernames: tuple[str, ...] = ()
    uids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()
    allowed_names: tuple[str, ...] = ()


class Authorities(msgspec.Struct, frozen=True):
    """The certificates, in DER, of the authorities of users, and of the authorities of proxies.

    If a bundle is empty or not known yet, no certificate counts as signed by it.
    """

    users: frozenset[bytes] = frozenset()
    proxies: frozenset[bytes] = frozenset()
    headers: ProxyHeaders = ProxyHeaders()


class Authenticator(msgspec.Struct, frozen=True):
    """The authentication of requests.

    Without `tokens`, bearer tokens are ignored. `authorities` returns the current authorities.
    Without `reads_uids`, users of client certificates have no uid.
    """

    authorities: Callable[[], Authorities]
    tokens: TokenReviews | None
    wall: Callable[[], datetime]
    measures: AccessMeasures
    reads_uids: bool = True

    async def identify(self, request: Request) -> User | None:
        """Returns the user, perhaps anonymous; None if the request has an invalid credential."""
        authorities, problems = self.authorities(), []
        for by in (self._by_proxy, self._by_certificate):
            try:
                user = by(request, authorities)
            except CertificateError as problem:
                problems.append(str(problem))
            else:
                if user is not None:
                    return authenticated(user)
        token = bearer_token(request.headers) if self.tokens is not None else ""
        if token:
            assert self.tokens is not None
            try:
                user = await self.tokens.user_of(token)
            except ReviewFailedError as problem:
                log.warning("cannot review a token", error=str(problem), repeats="TokenReview")
                problems.append("the token was not reviewed")
            except TokenRejectedError as problem:
                problems.append(str(problem))
            else:
                if user is not None:
                    return authenticated(user)
                problems.append("invalid bearer token")
        if problems:
            log.at(2, "request not authenticated", path=request.path, problems=problems)
            return None
        return ANONYMOUS

    def _by_proxy(self, request: Request, authorities: Authorities) -> User | None:
        if not (request.certificates and authorities.proxies):
            return None
        headers = authorities.headers
        if not signed_by(request.certificates, authorities.proxies):
            raise CertificateError("the certificate is not that of an authenticating proxy")
        name = common_name(request.certificates[0])
        if headers.allowed_names and name not in headers.allowed_names:
            raise CertificateError(f"a proxy with the name {name!r} is not allowed")
        username = _first(request.headers, headers.usernames)
        if not username:
            return None
        uid = _first(request.headers, headers.uids)
        groups = [
            value for each in headers.groups for value in request.headers.getall(each, ()) if value
        ]
        extra = _extra(request.headers, headers.extra_prefixes)
        return User(username, uid, tuple(groups), extra)

    def _by_certificate(self, request: Request, authorities: Authorities) -> User | None:
        if not (request.certificates and authorities.users):
            return None
        if not signed_by(request.certificates, authorities.users):
            raise CertificateError("the certificate is not signed by an authority of users")
        certificate, now = request.certificates[0], self.wall()
        self.measures.certificate_used(seconds_left(certificate, now))
        return user_of(certificate, now, reads_uid=self.reads_uids)


def bearer_token(headers: MultiMapping[str]) -> str:
    """Returns the token of the first Authorization header, or "" if it has none."""
    scheme, _, credentials = headers.get("Authorization", "").strip().partition(" ")
    return credentials.partition(" ")[0] if scheme.lower() == "bearer" else ""


def _first(headers: MultiMapping[str], names: Sequence[str]) -> str:
    """Returns the value of the first of these headers that has one, or ""."""
    values = (headers.get(name, "") for name in names)
    return next((value for value in values if value), "")


def _extra(headers: MultiMapping[str], prefixes: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Returns all headers that begin with one of the prefixes, by the rest of their names, which
    may be percent-encoded.
    """
    extra: dict[str, tuple[str, ...]] = {}
    for prefix in prefixes:
        for header, value in headers.items():
            if header.lower().startswith(prefix.lower()):
                key = unquote(header[len(prefix) :].lower())
                extra[key] = (*extra.get(key, ()), value)
    return extra
