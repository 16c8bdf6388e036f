"""The schedulers of the tests have the rights that config/deploy ships, and no others.

Whatever an API server of the tests is asked by a scheduler passes RIGHTS. A refusal fails the test
(tests/conftest.py), and after a run of all integration tests, so does a right that none of them
used.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from berth.actors.client.access import Remote, remote
from berth.actors.client.credentials import ANONYMOUS, FixedCredentials, Proof
from berth.actors.client.rest import ApiError, Connection
from berth.actors.scheduling.kube.yaml_documents import documents
from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Follow, Response
from berth.tools.kubernetes.api.requests.request import HttpRequest
from tests.kit.processes import ROOT
from tests.kit.rbac import Attributes, Authorizer, Document, Right, attributes_of, implied

DEPLOY = ROOT / "config/deploy"
NAMESPACE, ACCOUNT = "kube-system", "berth"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
TOKEN = "e30.e30.of-the-account"  # of another cluster; the API servers of tests know this one
LEASE = "kube-scheduler"  # as the overlay in-place names it
ROLES = (DEPLOY / "base/rbac.yaml", DEPLOY / "components/negotiation/rbac.yaml")
OUR_GROUPS = ("", "apps", "policy")


def shipped() -> list[Document]:
    """Returns the shipped roles and bindings, with the lease of the overlay in-place."""
    manifests = [document for file in ROLES for document in documents(file.read_bytes())]
    for document in manifests:
        for rule in document.get("rules", ()):
            if "resourceNames" in rule:
                rule["resourceNames"] = [LEASE]
    return manifests


class Rights:
    """A check of rights. `used` are those used so far, and `refused` describes the refusals."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self.used: set[Right] = set()
        self.refused: list[str] = []

    def check(self, method: str, url: str, body: object | None = None) -> None:
        """Raises ApiError if the scheduler may not do this. Plugins' own kinds are not checked:
        who deploys such a plugin grants the rights that it needs.
        """
        access = attributes_of(method, url)
        if not (access.group in OUR_GROUPS or access.group.endswith(".k8s.io")):
            return
        # A client that may not stream a list asks for the list.
        fallback = [access._replace(verb="list")] if "sendInitialEvents" in url else []
        for each in (access, *fallback, *implied(access, _mapping(body))):
            granting = self._authorizer.granting(each)
            if not granting:
                self.refused.append(str(each))
                raise ApiError(403, "Forbidden", forbidden(each))
            self.used.update(granting)

    def unused(self) -> list[Right]:
        """Returns the shipped rights that were not used so far."""
        return [right for right in self._authorizer.shipped if right not in self.used]

    def unused_roles(self) -> list[str]:
        """Returns the bound roles of which no right was used so far."""
        used = {right.role for right in self.used}
        return [role for role in self._authorizer.roles if role not in used]


RIGHTS = Rights(Authorizer(shipped(), NAMESPACE, ACCOUNT))


def forbidden(access: Attributes) -> str:
    """Returns the API server's message about a request that is not allowed."""
    if access.path:
        return f'User "{USER}" cannot {access.verb} path "{access.path}"'
    where = f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
    resource, _, _ = access.resource.partition("/")
    what = ".".join(filter(None, (resource, access.group)))
    name = f' "{access.name}"' if access.name else ""
    return (
        f'{what}{name} is forbidden: User "{USER}" cannot {access.verb} '
        f'resource "{access.resource}" in API group "{access.group}" {where}'
    )


@asynccontextmanager
async def as_service_account(
    connection: Connection, *arguments: Any, **options: Any
) -> AsyncIterator[Remote]:
    """Returns `remote` for a scheduler that shows its token, if it has no other credentials."""
    if connection.credentials is ANONYMOUS:
        connection = msgspec.structs.replace(
            connection, credentials=FixedCredentials(Proof(f"Bearer {TOKEN}"))
        )
    async with remote(connection, *arguments, **options) as access:
        yield access


_answer = Server.answer


def authorized(server: Server, request: HttpRequest) -> Response | Follow:
    """Returns the embedded API server's answer, if the service account may ask for it. Other
    clients may do everything.
    """
    return refusal(request) or _answer(server, request)


def refusal(request: HttpRequest) -> Response | None:
    """Returns the answer to a request that the service account may not make. None if it may, or if
    another client asks.
    """
    if request.headers.get("authorization") != f"Bearer {TOKEN}":
        return None
    query = "&".join(f"{name}={value}" for name, value in request.query.items())
    try:
        RIGHTS.check(request.method, f"{request.path}?{query}", request.body)
    except ApiError as refused:
        status = {
            "apiVersion": "v1",
            "kind": "Status",
            "metadata": {},
            "status": "Failure",
            "message": str(refused),
            "reason": refused.reason,
            "code": refused.code,
        }
        return Response(msgspec.json.encode(status), refused.code)
    return None


def _mapping(body: object | None) -> Any:
    """Returns the body of a request as far as it is an object."""
    if isinstance(body, bytes):
        try:
            return msgspec.json.decode(body)
        except msgspec.DecodeError:
            return None
    return body
