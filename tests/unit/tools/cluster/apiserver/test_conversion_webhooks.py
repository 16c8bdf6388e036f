"""Conversion webhooks: custom objects in versions that differ in more than their name."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
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

AUTHORITY = Authority(datetime.now(UTC))
BUNDLE = base64.b64encode(AUTHORITY.pair.certificate.encode()).decode()
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OLD, NEW = (f"/apis/e.com/{version}/namespaces/default/doors" for version in ("v1", "v2"))
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Doors:
    """A kind whose v1 has `size: 2x3`, and v2, in which it is stored, a width and a height."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.failure = ""
        self.odd: Document = {}  # what it answers instead
        self.labels: Any = None  # what it gives objects
        self.asked: list[list[str]] = []  # the names of the objects in each request
        self._server = url
        self._session = session

    def answer(self, request: HttpRequest) -> Response:
        asked: Document = json.loads(request.body)["request"]
        self.asked.append([each["metadata"]["name"] for each in asked["objects"]])
        objects = [self._converted(each, asked["desiredAPIVersion"]) for each in asked["objects"]]
        status = "Failed" if self.failure else "Success"
        result = {"status": status, "message": self.failure}
        response = {"uid": asked["uid"], "convertedObjects": objects, "result": result}
        review = {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1"}
        return Response(json.dumps({**review, "response": response, **self.odd}).encode())

    def _converted(self, document: Document, version: str) -> Document:
        spec = document["spec"]
        if version == "e.com/v1":
            pad = {"pad": spec["pad"]} if "pad" in spec else {}
            spec = {"size": f"{spec['width']}x{spec['height']}", **pad}
        else:
            width, _, height = spec["size"].partition("x")
            spec = {"width": int(width), "height": int(height)}
        metadata = {**document["metadata"], **({"labels": self.labels} if self.labels else {})}
        return {**document, "apiVersion": version, "metadata": metadata, "spec": spec}

    async def call(self, method: str, path: str, body: Any = None, **head: str) -> tuple[int, Any]:
        sent = json.dumps(body) if body is not None else None
        headers = {"Content-Type": "application/json", **head}
        async with self._session.request(
            method, self._server + path, data=sent, headers=headers
        ) as answer:
            return answer.status, json.loads((await answer.read()).partition(b"\n")[0])

    async def create(self, path: str, name: str, **spec: Any) -> Document:
        version = path.split("/")[3]
        document = {"apiVersion": f"e.com/{version}", "kind": "Door", "metadata": {"name": name}}
        status, answer = await self.call("POST", path, {**document, "spec": spec})
        assert status == 201, answer
        created: Document = answer
        return created


@asynccontextmanager
async def doors(*, webhooks: bool = True) -> AsyncIterator[Doors]:
    async with (
        serve(store=fresh_store(), webhooks=webhooks) as url,
        aiohttp.ClientSession() as session,
    ):
        kind = Doors(url, session)
        async with listen(kind.answer, tls=AUTHORITY.context(AUTHORITY.server())) as hook:
            size = {"name": "Size", "type": "string", "jsonPath": ".spec.size"}
            version = {
                "served": True,
                "schema": {"openAPIV3Schema": OPEN},
                "subresources": {"status": {}},
            }
            definition = {
                "metadata": {"name": "doors.e.com"},
                "spec": {
                    "group": "e.com",
                    "scope": "Namespaced",
                    "names": {"plural": "doors", "kind": "Door"},
                    "versions": [
                        {
                            **version,
                            "name": "v1",
                            "storage": False,
                            "additionalPrinterColumns": [size],
                        },
                        {**version, "name": "v2", "storage": True},
                    ],
                    "conversion": {
                        "strategy": "Webhook",
                        "webhook": {
                            "conversionReviewVersions": ["v1"],
                            "clientConfig": {"url": f"{hook}/convert", "caBundle": BUNDLE},
                        },
                    },
                },
            }
            status, answer = await kind.call("POST", DEFINITIONS, definition)
            assert status == 201, answer
            yield kind


async def test_an_object_is_stored_in_one_version_and_read_in_each() -> None:
    async with doors() as kind:
        created = await kind.create(OLD, "a", size="2x3")
        assert created["spec"] == {"size": "2x3"}
        _, read = await kind.call("GET", f"{NEW}/a")
        assert (read["apiVersion"], read["spec"]) == ("e.com/v2", {"width": 2, "height": 3})
        assert read["metadata"]["uid"] == created["metadata"]["uid"]
        assert len(kind.asked) == 2  # there and back; a conversion is remembered
        patch = {"spec": {"size": "4x5"}}
        merge = {"Content-Type": "application/merge-patch+json"}
        status, patched = await kind.call("PATCH", f"{OLD}/a", patch, **merge)
        assert (status, patched["spec"]) == (200, {"size": "4x5"})
        status, told = await kind.call("PUT", f"{OLD}/a/status", {**patched, "status": {"ok": 1}})
        assert (status, told["spec"], told["status"]) == (200, {"size": "4x5"}, {"ok": 1})
        _, read = await kind.call("GET", f"{NEW}/a")
        assert (read["spec"], read["status"]) == ({"width": 4, "height": 5}, {"ok": 1})
        status, gone = await kind.call("DELETE", f"{OLD}/a")
        assert (status, gone["status"]) == (200, "Success")


async def test_the_objects_of_a_list_are_converted_in_one_request() -> None:
    async with doors() as kind:
        for name in ("a", "b"):
            await kind.create(NEW, name, width=1, height=2)
        assert kind.asked == []
        _, listed = await kind.call("GET", OLD)
        assert [each["spec"] for each in listed["items"]] == [{"size": "1x2"}] * 2
        assert kind.asked == [["a", "b"]]
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
        _, table = await kind.call("GET", OLD, Accept=accept)
        assert [row["cells"] for row in table["rows"]] == [["a", "1x2"], ["b", "1x2"]]


async def test_a_watch_shows_the_version_that_it_asks_for() -> None:
    async with doors() as kind:
        await kind.create(NEW, "a", width=1, height=2)
        _, event = await kind.call("GET", f"{OLD}?watch=true&resourceVersion=0&timeoutSeconds=1")
        assert (event["type"], event["object"]["spec"]) == ("ADDED", {"size": "1x2"})


async def test_a_conversion_that_fails_is_an_error_and_stores_nothing() -> None:
    async with doors() as kind:
        kind.failure = "no such door"
        body = {
            "apiVersion": "e.com/v1",
            "kind": "Door",
            "metadata": {"name": "a"},
            "spec": {"size": "1x2"},
        }
        status, answer = await kind.call("POST", OLD, body)
        expected = "conversion webhook for e.com/v1, Kind=Door failed: no such door"
        assert (status, answer["message"]) == (500, expected)
        kind.failure = ""
        assert (await kind.call("GET", f"{NEW}/a"))[0] == 404
        assert (await kind.create(OLD, "a", size="1x2"))["spec"] == {"size": "1x2"}


async def test_without_webhooks_the_name_of_the_version_alone_changes() -> None:
    async with doors(webhooks=False) as kind:
        await kind.create(OLD, "a", size="2x3")
        _, read = await kind.call("GET", f"{NEW}/a")
        assert (read["apiVersion"], read["spec"], kind.asked) == ("e.com/v2", {"size": "2x3"}, [])


@pytest.mark.parametrize("response", [1, "x", [1], {"uid": []}, {"result": "Success"}])
async def test_a_conversion_of_other_types_is_an_error(response: Any) -> None:
    async with doors() as kind:
        await kind.create(NEW, "a", width=1, height=2)
        kind.odd = {"response": response}
        status, answer = await kind.call("GET", f"{OLD}/a")
        assert status == 500
        assert "failed: invalid response: Expected" in answer["message"]
        kind.odd = {}
        assert (await kind.call("GET", f"{OLD}/a"))[0] == 200


@pytest.mark.parametrize("labels", [1, ["a"], {"a": 1}])
async def test_a_conversion_cannot_give_labels_that_are_none(labels: Any) -> None:
    async with doors() as kind:
        await kind.create(NEW, "a", width=1, height=2)
        kind.labels = labels
        status, answer = await kind.call("GET", f"{OLD}/a")
        assert (status, "invalid metadata in converted object" in answer["message"]) == (500, True)


async def test_many_objects_are_converted_at_once() -> None:
    async with doors() as kind:
        for number in range(40):
            await kind.create(NEW, f"d{number}", width=1, height=2, pad="x" * 20_000)
        status, listed = await kind.call("GET", OLD)
        assert (status, len(listed["items"])) == (200, 40)
