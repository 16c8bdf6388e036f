"""Asks webhooks over HTTPS: those of admission, and those that convert custom objects.

A webhook has a URL, or is a service: that of an ExternalName is at its host, and another one at the
first address of its Endpoints. Its certificate must come from the configuration's bundle or,
without a bundle, from an authority that the machine trusts.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64decode
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import aiohttp
import msgspec

from ...kubernetes.api.policies.webhook_decisions import (
    WebhookAnswer,
    WebhookAnswers,
    WebhookCall,
)
from ...kubernetes.api.store import Store
from ...kubernetes.api.types.api_documents import Document
from ...kubernetes.api.types.resources import BY_KIND
from ...kubernetes.api.types.webhook_conversion import ConversionsNeededError
from .http import Later, Response, in_one
from .webhook_answers import Attempt

SERVICES, ENDPOINTS = BY_KIND["v1", "Service"], BY_KIND["v1", "Endpoints"]
DEFAULT_SECONDS = 10
CONVERSION_SECONDS = 30
MOST_ANSWER = 3 << 20  # bytes


class UnreachableError(Exception):
    """The service of a webhook has no address."""


class Address(NamedTuple):
    """Where a webhook is asked; `host` is the name that its certificate must have, "" for that of
    the URL.
    """

    url: str
    host: str


class HttpsWebhooks:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._session: aiohttp.ClientSession | None = None

    def later(
        self, attempt: Attempt, answers: WebhookAnswers | None, calls: Sequence[WebhookCall]
    ) -> Later:
        known = {} if answers is None else answers.answers

        async def find() -> Response:
            found = await asyncio.gather(*map(self._ask, calls))
            new = dict(zip((call.key for call in calls), found, strict=True))
            return await in_one(attempt(WebhookAnswers({**known, **new})))

        return Later(find)

    def converted(
        self, attempt: Attempt, answers: WebhookAnswers, needed: ConversionsNeededError
    ) -> Later:
        async def find() -> Response:
            await self.convert(needed)
            return await in_one(attempt(answers))

        return Later(find)

    async def convert(self, needed: ConversionsNeededError) -> None:
        uid = self._store.outside.new_uid()
        asked = needed.review(uid), needed.webhook.client, CONVERSION_SECONDS
        review, failure = await self._ask_for(*asked)
        needed.webhook.learn(needed, uid, review, failure)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _ask(self, call: WebhookCall) -> WebhookAnswer:
        seconds = call.hook.get("timeoutSeconds") or DEFAULT_SECONDS
        client = call.hook.get("clientConfig") or {}
        review, failure = await self._ask_for(call.review, client, seconds)
        failure = failure and f"failed to call webhook: {failure}"
        return WebhookAnswer(call.review["request"]["uid"], review, failure)

    async def _ask_for(
        self, review: Document, client: Document, seconds: int
    ) -> tuple[Document | None, str]:
        """Returns the answer to a review; None and a reason if there is none."""
        place = client.get("url") or ""
        try:
            place, host = _address(self._store, client)
            return await self._post(review, place, host, client.get("caBundle") or "", seconds)
        except TimeoutError:
            why = "context deadline exceeded"
        except aiohttp.ClientConnectorCertificateError as problem:
            why = f"tls: failed to verify certificate: {problem.certificate_error}"
        except aiohttp.ClientConnectorError as problem:
            why = _dial_problem(problem)
        except RecursionError:
            why = "the answer is nested too deeply"
        except (UnreachableError, aiohttp.ClientError, OSError, ValueError) as problem:
            why = str(problem)
        return None, f'Post "{place}?timeout={seconds}s": {why}' if place else why

    async def _post(
        self, asked: Document, url: str, host: str, bundle: str, seconds: int
    ) -> tuple[Document | None, str]:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        async with (
            asyncio.timeout(seconds),
            self._session.post(
                url,
                params={"timeout": f"{seconds}s"},
                data=msgspec.json.encode(asked),
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                ssl=_context(bundle),
                server_hostname=host or None,
                allow_redirects=False,
            ) as answer,
        ):
            body = await _whole(answer)
            if answer.status != 200:
                said = body[:200].decode(errors="replace")
                return None, f"the server answered with {answer.status}: {said}"
            review = msgspec.json.decode(body)
        return (review if isinstance(review, dict) else {}), ""


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    """Returns the body, which may come in many pieces. Raises ValueError if it is too long."""
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > MOST_ANSWER:
            raise ValueError(f"the answer is longer than {MOST_ANSWER} bytes")
    return bytes(body)


def _dial_problem(problem: aiohttp.ClientConnectorError) -> str:
    """Returns why there is no connection, in the words of Go."""
    if isinstance(problem.os_error, ConnectionRefusedError):
        return f"dial tcp {problem.host}:{problem.port}: connect: connection refused"
    if isinstance(problem, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {problem.host}: no such host"
    return f"dial tcp {problem.host}:{problem.port}: {problem.os_error.strerror}"


@lru_cache(maxsize=64)
def _context(bundle: str) -> ssl.SSLContext:
    """Returns the context that trusts a bundle in base64, or the machine's authorities."""
    return ssl.create_default_context(cadata=b64decode(bundle).decode() if bundle else None)


def _address(store: Store, client: Document) -> Address:
    """Returns the address of a webhook. Raises UnreachableError."""
    if url := client.get("url"):
        return Address(url, "")
    service = client.get("service") or {}
    namespace, name = service.get("namespace") or "", service.get("name") or ""
    path, port = service.get("path") or "/", service.get("port") or 443
    stored = store.find(SERVICES, namespace, name)
    if stored is None:
        raise UnreachableError(f'service "{name}" not found')
    spec = stored["spec"]
    certified = f"{name}.{namespace}.svc"
    if spec.get("type") == "ExternalName":
        return Address(f"https://{spec['externalName']}:{port}{path}", certified)
    endpoints = store.find(ENDPOINTS, namespace, name) or {}
    names = [each.get("name", "") for each in spec.get("ports") or () if each["port"] == port]
    for subset in endpoints.get("subsets") or ():
        for of_pod in subset.get("ports") or ():
            if of_pod.get("name", "") in names and subset.get("addresses"):
                ip = subset["addresses"][0]["ip"]
                host = f"[{ip}]" if ":" in ip else ip
                return Address(f"https://{host}:{of_pod['port']}{path}", certified)
    raise UnreachableError(f'no endpoints available for service "{name}"')
