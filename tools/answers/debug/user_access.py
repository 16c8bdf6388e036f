"""The user's access to a scheduler: credentials, and the certificates to trust."""

from __future__ import annotations

import ssl
from typing import NamedTuple

from berth.actors.client.credentials import KubeconfigError
from berth.actors.client.kubeconfig import load
from berth.actors.client.rest import Connection
from berth.actors.client.tls import client_context

DEFAULT_SERVER = "https://127.0.0.1:10259"


class Trust(NamedTuple):
    """The trusted certificates. `authority` is a PEM file. If `insecure`, any is trusted."""

    authority: str | None
    insecure: bool


class UserAccess(NamedTuple):
    """The credentials and certificates for the requests.

    `connection` is the connection to the API server; its credentials are sent to the scheduler as
    well. It is None for a user without a kubeconfig.
    """

    connection: Connection | None
    trust: Trust

    async def proof(self) -> tuple[dict[str, str], ssl.SSLContext]:
        """Returns the headers of the next request, and the TLS context. Raises KubeconfigError."""
        if self.connection is None:
            return {}, self._trusting(client_context(None))
        proof = await self.connection.credentials.proof()
        headers = {"Authorization": proof.authorization} if proof.authorization else {}
        tls = proof.tls or self.connection.tls or client_context(None)
        return headers, self._trusting(tls)

    def _trusting(self, tls: ssl.SSLContext) -> ssl.SSLContext:
        if self.trust.insecure:
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        elif self.trust.authority:
            try:
                tls.load_verify_locations(self.trust.authority)
            except ssl.SSLError:
                raise KubeconfigError(
                    f"--certificate-authority: {self.trust.authority}: expected certificates in PEM"
                ) from None
        return tls


def connection_of(kubeconfig: str | None, context: str) -> Connection | None:
    """Returns the connection of the user's kubeconfig; None without a kubeconfig. Raises
    KubeconfigError for one that cannot be used.
    """
    if kubeconfig or context:
        return load(kubeconfig, context, home=True)
    try:
        return load(None, home=True)
    except KubeconfigError as problem:
        if str(problem).startswith("no API server"):
            return None
        raise
