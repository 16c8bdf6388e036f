"""Impersonation: users who act for others, by the Impersonate headers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from ..store import Store
from ..types.api_documents import RefusedError
from .rights import Act, check_right
from .users import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    Requester,
    account_groups,
    account_of,
)

_PREFIX = "impersonate-"
_LENGTH = len(_PREFIX)
_EXTRA = "impersonate-extra-"
_HEADERS = ("impersonate-user", "impersonate-group", "impersonate-uid")
_GROUP = "authentication.k8s.io"


def acting_user(store: Store, user: Requester, headers: Mapping[str, str]) -> Requester:
    """Returns the user that these headers impersonate; without such headers, the user who sent
    them.

    Raises RefusedError with 400 if the headers name no user, and 403 if the user may not do this.
    """
    for header in headers:  # of every request, so without a generator
        if header[:_LENGTH] == _PREFIX:
            return _impersonated(store, user, headers)
    return user


def _impersonated(store: Store, user: Requester, headers: Mapping[str, str]) -> Requester:
    extra = {
        unquote(header.removeprefix(_EXTRA)): _header_values(value)
        for header, value in headers.items()
        if header.startswith(_EXTRA)
    }
    names, groups, uids = (_header_values(headers.get(header, "")) for header in _HEADERS)
    if not names:
        why = "the Impersonate headers of a group, a uid or an extra need an Impersonate-User"
        raise RefusedError(400, "BadRequest", why)
    other = Requester(names[0], uids[0] if uids else "", tuple(groups), extra)
    for act in _required_acts(other):
        check_right(store, user, act)
    return Requester(other.name, other.uid, _all_groups(other), extra)


def _header_values(header: str) -> list[str]:
    """Returns the values of a header; the reader joins those of several headers by line ends."""
    # Headers are read as Latin-1, but clients send UTF-8.
    text = header.encode("latin-1", "replace").decode("utf-8", "replace")
    return [value for value in text.split("\n") if value]


def _required_acts(other: Requester) -> Iterator[Act]:
    """Yields the acts that a user must be allowed in order to impersonate another."""
    account = account_of(other.name)
    if account is None:
        yield Act("impersonate", resource="users", name=other.name)
    else:
        namespace, name = account
        yield Act("impersonate", resource="serviceaccounts", namespace=namespace, name=name)
    for group in other.groups:
        yield Act("impersonate", resource="groups", name=group)
    for key, values in other.extra.items():
        for value in values:
            yield Act("impersonate", _GROUP, "userextras", key, name=value)
    if other.uid:
        yield Act("impersonate", _GROUP, "uids", name=other.uid)


def _all_groups(other: Requester) -> tuple[str, ...]:
    """Returns the groups of an impersonated user, with those that every user of its kind has."""
    groups = tuple(other.groups)
    account = account_of(other.name)
    if not groups and account is not None:
        groups = account_groups(account[0])
    if other.name == ANONYMOUS:
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    if AUTHENTICATED in groups or UNAUTHENTICATED in groups:
        return groups
    return (*groups, AUTHENTICATED)
