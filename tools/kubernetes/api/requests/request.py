"""A request over HTTP, as the API server and the pages read it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

CertificateSubject = tuple[str, tuple[str, ...]]  # the user and the groups


class HttpRequest(msgspec.Struct, frozen=True):
    """An HTTP request.

    `headers` has lower-case names; `query` has the first value of each name, and `parameters` is
    the query as it was sent. Values of headers with the same name are joined by commas, except for
    headers that name a user: they are joined by line ends, because names may have commas.
    """

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes
    keep: bool = True
    certificate: CertificateSubject | None = None
    parameters: str = ""
