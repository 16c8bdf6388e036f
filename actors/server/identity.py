"""Users, as Kubernetes' user.Info: the senders of requests."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"


class User(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


ANONYMOUS = User("system:anonymous", groups=(UNAUTHENTICATED,))


def authenticated(user: User) -> User:
    """Returns the user as a member of the group of all authenticated users."""
    if user.groups and (AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups):
        return user
    if user.name == ANONYMOUS.name:
        return user
    return msgspec.structs.replace(user, groups=(*user.groups, AUTHENTICATED))
