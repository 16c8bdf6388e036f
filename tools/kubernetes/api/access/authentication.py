"""Who sends a request: by a client certificate, by a token, or nobody in particular.

Without `store.secure`, a request with neither comes from the administrator. With it, it comes from
system:anonymous, and a token that is not valid is refused, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..store import Store
from ..types.api_documents import RefusedError
from .tokens import bearer_user
from .users import ADMINISTRATOR, ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, Requester

NOBODY = Requester(ANONYMOUS, groups=(UNAUTHENTICATED,))


def sender(
    store: Store, headers: Mapping[str, str], certificate: tuple[str, tuple[str, ...]] | None
) -> Requester:
    """Returns the user of these credentials. Raises RefusedError with 401.

    `certificate` has the user and the groups of a client's certificate.
    """
    if certificate is not None and certificate[0]:
        user, groups = certificate
        return Requester(user, groups=(*groups, AUTHENTICATED))
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if not store.secure:
        # Clients may show the credentials of another cluster, which say nothing here.
        token = token if scheme == "Bearer" else scheme
        return bearer_user(store, token) if token else ADMINISTRATOR
    if not scheme:
        return NOBODY
    if scheme.lower() != "bearer" or not token.strip():
        raise RefusedError(401, "Unauthorized", "Unauthorized")
    return bearer_user(store, token.strip())
