"""Users: the administrator and service accounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ..types.api_documents import Document

MASTERS = "system:masters"
AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
ANONYMOUS = "system:anonymous"
NODE_NAME = "authentication.kubernetes.io/node-name"
_ACCOUNT = "system:serviceaccount"


class Requester(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = {}

    def info(self) -> Document:
        """Returns the user as a UserInfo."""
        info: Document = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra.items()}
        return info


ADMINISTRATOR = Requester("kubernetes-admin", groups=(MASTERS, AUTHENTICATED))


def account_name(namespace: str, name: str) -> str:
    """Returns the name of a service account as a user."""
    return f"{_ACCOUNT}:{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, str]:
    return f"{_ACCOUNT}s", f"{_ACCOUNT}s:{namespace}"


def account_of(user: str) -> tuple[str, str] | None:
    """Returns the namespace and the name of a user who is a service account; else None."""
    parts = user.split(":")
    if len(parts) != 4 or f"{parts[0]}:{parts[1]}" != _ACCOUNT:
        return None
    return parts[2], parts[3]
