"""Admission webhooks: whom a write is told to, and what becomes of it."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from berth.tools.cluster.apiserver.app import serve
from berth.tools.cluster.apiserver.authority import Authority
from berth.tools.cluster.apiserver.http import Response, listen
from berth.tools.kubernetes.api.requests.request import HttpRequest
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

MAPS = "/api/v1/namespaces/default/configmaps"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
RULE = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}
AUTHORITY = Authority(datetime.now(UTC))
BUNDLE = base64.b64encode(AUTHORITY.pair.certificate.encode()).decode()
Say = Callable[[Document], Document]


def allow(_: Document) -> Document:
    return {"allowed": True}


def patch(*operations: Document) -> Say:
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": text}


class Webhook:
    """A webhook that says what it is told to, and the server that asks it."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = ""
        self.say: Say = allow
        self.asked: list[Document] = []
        self.body = b""  # what it answers instead
        self._server = url
        self._session = session

    def answer(self, request: HttpRequest) -> Response:
        review: Document = json.loads(request.body)
        self.asked.append(review["request"])
        response = {"uid": review["request"]["uid"], **self.say(review["request"])}
        answer = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        return Response(self.body or json.dumps(answer).encode())

    async def call(self, method: str, path: str, body: Document | None = None) -> tuple[int, Any]:
        async with self._session.request(method, self._server + path, json=body) as answer:
            return answer.status, {**await answer.json(), "warnings": answer.headers.get("Warning")}

    async def configure(self, kind: str = "Validating", **more: Any) -> None:
        hook = {
            "name": "a.b.c",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": f"{self.url}/check", "caBundle": BUNDLE},
            "rules": [RULE],
            **more,
        }
        document = {"metadata": {"name": "hooks"}, "webhooks": [hook]}
        path = f"{HOOKS}/{kind.lower()}webhookconfigurations"
        status, answer = await self.call("POST", path, document)
        assert status == 201, answer

    async def create(self, **document: Any) -> tuple[int, Any]:
        return await self.call("POST", MAPS, {"metadata": {"name": "m"}, **document})


@asynccontextmanager
async def hooked(*, webhooks: bool = True) -> AsyncIterator[Webhook]:
    async with (
        serve(store=fresh_store(), webhooks=webhooks) as url,
        aiohttp.ClientSession() as session,
    ):
        webhook = Webhook(url, session)
        context = AUTHORITY.context(AUTHORITY.server())
        async with listen(webhook.answer, tls=context) as webhook.url:
            yield webhook


async def test_a_validating_webhook_may_allow_with_a_warning() -> None:
    async with hooked() as webhook:
        await webhook.configure()
        webhook.say = lambda _: {"allowed": True, "warnings": ["mind the gap"]}
        status, answer = await webhook.create()
        assert (status, answer["warnings"]) == (201, '299 - "mind the gap"')
        (asked,) = webhook.asked
        assert asked["operation"] == "CREATE"
        assert asked["object"]["metadata"]["name"] == "m"
        assert (asked["oldObject"], asked["resource"]["resource"]) == (None, "configmaps")
        assert asked["userInfo"]["username"] == "kubernetes-admin"


async def test_a_refusal_is_told_in_the_words_of_the_webhook() -> None:
    async with hooked() as webhook:
        await webhook.configure()
        webhook.say = lambda _: {"allowed": False, "status": {"message": "no", "code": 422}}
        status, answer = await webhook.create()
        assert status == 422
        assert answer["message"] == 'admission webhook "a.b.c" denied the request: no'
        webhook.say = lambda _: {"allowed": False}
        status, answer = await webhook.create()
        assert status == 400
        assert answer["message"].endswith("denied the request without explanation")
        assert (await webhook.call("GET", f"{MAPS}/m"))[0] == 404


async def test_a_mutating_webhook_changes_the_object_before_it_is_checked() -> None:
    async with hooked() as webhook:
        await webhook.configure("Mutating")
        webhook.say = patch(
            {"op": "add", "path": "/data", "value": {"a": "b"}},
            {"op": "add", "path": "/metadata/labels", "value": {"c": "d"}},
        )
        status, answer = await webhook.create()
        assert (status, answer["data"], answer["metadata"]["labels"]) == (
            201,
            {"a": "b"},
            {"c": "d"},
        )
        assert answer["metadata"]["uid"]
        assert "uid" not in webhook.asked[0]["object"]["metadata"]
        webhook.say = patch({"op": "add", "path": "/data", "value": {"not a key": "b"}})
        status, answer = await webhook.call("POST", MAPS, {"metadata": {"name": "other"}})
        assert status == 422


@pytest.mark.parametrize(("policy", "times"), [("Never", 1), ("IfNeeded", 2)])
async def test_a_webhook_is_asked_again_after_a_later_change_if_it_wants_it(
    policy: str, times: int
) -> None:
    async with hooked() as webhook:
        first = {
            "name": "first.b.c",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": f"{webhook.url}/first", "caBundle": BUNDLE},
            "rules": [RULE],
            "reinvocationPolicy": policy,
        }
        hooks = {"metadata": {"name": "a"}, "webhooks": [first]}
        await webhook.call("POST", f"{HOOKS}/mutatingwebhookconfigurations", hooks)
        await webhook.configure("Mutating")
        webhook.say = lambda asked: (
            allow(asked)
            if len(webhook.asked) == 1
            else patch({"op": "add", "path": "/data", "value": {"a": "b"}})(asked)
        )
        status, answer = await webhook.create()
        assert (status, answer["data"], len(webhook.asked)) == (201, {"a": "b"}, 1 + times)


async def test_updates_and_deletions_are_told_too() -> None:
    async with hooked() as webhook:
        await webhook.create()
        await webhook.configure()
        await webhook.call("PUT", f"{MAPS}/m", {"metadata": {"name": "m"}, "data": {"a": "b"}})
        webhook.say = lambda _: {"allowed": False}
        assert (await webhook.call("DELETE", f"{MAPS}/m"))[0] == 400
        update, deletion = webhook.asked
        assert (update["oldObject"].get("data"), update["object"]["data"]) == (None, {"a": "b"})
        assert (deletion["object"], deletion["oldObject"]["data"]) == (None, {"a": "b"})


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
async def test_a_webhook_that_does_not_answer(policy: str, code: int) -> None:
    async with hooked() as webhook:
        url = "https://127.0.0.1:1/check"
        await webhook.configure(clientConfig={"url": url}, failurePolicy=policy)
        status, answer = await webhook.create()
        assert status == code
        if code == 500:
            why = "dial tcp 127.0.0.1:1: connect: connection refused"
            failed = f'failed to call webhook: Post "{url}?timeout=10s": {why}'
            expected = f'Internal error occurred: failed calling webhook "a.b.c": {failed}'
            assert answer["message"] == expected


async def test_a_certificate_of_another_authority_is_refused() -> None:
    async with hooked() as webhook:
        await webhook.configure(clientConfig={"url": f"{webhook.url}/check"})
        status, answer = await webhook.create()
        assert status == 500
        assert "certificate" in answer["message"]


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
@pytest.mark.parametrize(
    "odd",
    [
        {"status": 1},
        {"status": []},
        {"status": {"message": 1}},
        {"status": {"code": "x"}},
        {"status": {"code": 99999}},
        {"status": {"details": "x"}},
        {"allowed": "true"},
        {"allowed": True, "warnings": 1},
        {"allowed": True, "warnings": [1]},
        {"allowed": True, "patch": 1, "patchType": "JSONPatch"},
    ],
)
async def test_an_answer_of_other_types_is_none(kind: str, odd: Document) -> None:
    async with hooked() as webhook:
        await webhook.configure(kind)
        webhook.say = lambda _: odd
        status, answer = await webhook.create()
        assert status == 500
        assert "received invalid webhook response: Expected" in answer["message"]


async def test_an_answer_that_is_nested_too_deeply_is_none() -> None:
    async with hooked() as webhook:
        await webhook.configure()
        webhook.body = b"[" * 100_000
        status, answer = await webhook.create()
        assert (status, "nested too deeply" in answer["message"]) == (500, True)


async def test_a_webhook_may_refuse_with_any_code() -> None:
    async with hooked() as webhook:
        await webhook.configure()
        webhook.say = lambda _: {"status": {"code": 499}}
        status, answer = await webhook.create()
        assert (status, answer["code"]) == (499, 499)


async def test_a_long_answer_is_read_to_its_end() -> None:
    async with hooked() as webhook:
        await webhook.configure()
        webhook.say = lambda _: {"allowed": True, "auditAnnotations": {"a": "x" * 2_500_000}}
        status, answer = await webhook.create()
        assert status == 201, answer
        webhook.say = lambda _: {"allowed": True, "auditAnnotations": {"a": "x" * 3_500_000}}
        status, answer = await webhook.create()
        assert (status, "is longer than" in answer["message"]) == (500, True)


async def test_an_answer_to_another_question_is_none() -> None:
    async with hooked() as webhook:
        await webhook.configure()
        webhook.say = lambda _: {"allowed": True, "uid": "x"}
        status, answer = await webhook.create()
        assert status == 500
        assert "received invalid webhook response: expected response.uid=" in answer["message"]


@pytest.mark.parametrize(
    "more",
    [
        {"rules": [{**RULE, "resources": ["secrets"]}]},
        {"rules": []},
        {"rules": [{**RULE, "operations": ["UPDATE"]}]},
        {"namespaceSelector": {"matchLabels": {"a": "b"}}},
        {"objectSelector": {"matchLabels": {"a": "b"}}},
        {"matchConditions": [{"name": "x", "expression": "object.metadata.name == 'other'"}]},
    ],
)
async def test_a_webhook_that_the_write_does_not_concern(more: Document) -> None:
    async with hooked() as webhook:
        await webhook.configure(**more)
        assert (await webhook.create())[0] == 201
        assert webhook.asked == []


async def test_a_dry_run_is_told_as_one() -> None:
    async with hooked() as webhook:
        await webhook.configure()
        document = {"metadata": {"name": "m"}}
        assert (await webhook.call("POST", f"{MAPS}?dryRun=All", document))[0] == 201
        assert webhook.asked[0]["dryRun"] is True


async def test_without_the_option_no_webhook_is_asked() -> None:
    async with hooked(webhooks=False) as webhook:
        await webhook.configure()
        webhook.say = lambda _: {"allowed": False}
        assert (await webhook.create())[0] == 201
        assert webhook.asked == []


async def test_a_webhook_may_be_a_service() -> None:
    async with hooked() as webhook:
        port = int(webhook.url.rpartition(":")[2])
        spec = {"type": "ExternalName", "externalName": "localhost"}
        services = "/api/v1/namespaces/default/services"
        document = {"metadata": {"name": "kubernetes2"}, "spec": spec}
        await webhook.call("POST", services, document)
        service = {"name": "kubernetes2", "namespace": "default", "port": port, "path": "/check"}
        await webhook.configure(clientConfig={"service": service, "caBundle": BUNDLE})
        status, answer = await webhook.create()
        # the certificate is for other names than that of the service
        assert status == 500
        assert "kubernetes2.default.svc" in answer["message"]
