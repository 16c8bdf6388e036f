"""Requests that take long: the loop goes on meanwhile, and they end as short ones do."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from berth.tools.cluster.apiserver import long_requests
from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Follow, Later, Response, in_one
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.call_counts import calls_of
from tests.kit.documents import Document, pod
from tests.kit.stores import fresh_store

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
LONG = {"data": {"long": "x" * long_requests.LONG_BODY}}
KIND = BY_KIND["v1", "ConfigMap"]


def request(
    method: str, path: str, body: Any = None, how: str = "application/json", **query: str
) -> HttpRequest:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body) if body else b""
    return HttpRequest(method, path, query, {"host": "localhost", "content-type": how}, data)


def named(name: str, **fields: Any) -> Document:
    return {"metadata": {"name": name}, **fields}


@pytest.fixture
def store() -> Store:
    store = fresh_store()
    Api(store).seed()
    return store


@pytest.fixture
def server(store: Store) -> Server:
    return Server(store)


async def ended(answer: Response | Follow) -> tuple[int, Document]:
    response = await in_one(answer)
    return response.status, msgspec.json.decode(response.body)


def begun(answer: Response | Follow) -> asyncio.Task[tuple[int, Document]]:
    assert isinstance(answer, Later)
    return asyncio.ensure_future(ended(answer))


async def test_a_long_body_holds_the_loop_for_no_more_steps_than_a_short_one(
    server: Server,
) -> None:
    def steps(fields: int) -> int:
        body = {"data": {f"key-{number:06}": "value" for number in range(fields)}}
        asked = request("POST", MAPS, named("many", **body))
        return calls_of(lambda: server.answer(asked))

    assert max(steps(20_000), steps(40_000)) < 100


async def test_others_are_answered_while_a_long_write_is_tried(
    server: Server, store: Store
) -> None:
    long = begun(server.answer(request("POST", MAPS, named("long", **LONG))))
    await asyncio.sleep(0)  # it has begun
    assert isinstance(server.answer(request("POST", MAPS, named("short"))), Response)
    assert store.find(KIND, "default", "long") is None
    status, answer = await long
    assert status == 201
    assert answer["metadata"]["resourceVersion"] == str(store.revision)
    assert [event.after.document["metadata"]["name"] for event in store.since(KIND, 0)[-2:]] == [
        "short",
        "long",
    ]


async def test_a_long_patch_is_tried_again_after_a_write_of_its_object(server: Server) -> None:
    server.answer(request("POST", MAPS, named("one")))
    long = begun(server.answer(request("PATCH", f"{MAPS}/one", LONG, MERGE)))
    await asyncio.sleep(0)
    server.answer(request("PATCH", f"{MAPS}/one", {"data": {"short": "y"}}, MERGE))
    status, answer = await long
    assert (status, sorted(answer["data"])) == (200, ["long", "short"])


async def test_a_write_that_names_a_version_is_refused_after_another(server: Server) -> None:
    created = await ended(server.answer(request("POST", MAPS, named("one"))))
    long = begun(server.answer(request("PUT", f"{MAPS}/one", {**created[1], **LONG})))
    await asyncio.sleep(0)
    server.answer(request("PATCH", f"{MAPS}/one", {"data": {"short": "y"}}, MERGE))
    status, answer = await long
    assert (status, answer["reason"]) == (409, "Conflict")


async def test_a_write_that_others_always_outrun_holds_the_loop_at_last(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def never(trial: long_requests.Trial) -> bool:
        tries.append(trial)
        return False

    monkeypatch.setattr(long_requests.Trial, "is_current", never)
    status, _ = await ended(server.answer(request("POST", MAPS, named("long", **LONG))))
    assert (status, len(tries)) == (201, long_requests.MOST_TRIES)


async def test_a_namespace_that_ends_meanwhile_takes_no_object(
    server: Server, store: Store
) -> None:
    server.answer(request("POST", "/api/v1/namespaces", named("brief")))
    path = "/api/v1/namespaces/brief/configmaps"
    long = begun(server.answer(request("POST", path, named("long", **LONG))))
    await asyncio.sleep(0)
    server.answer(request("DELETE", "/api/v1/namespaces/brief"))
    list(Api(store).end_contents("brief"))
    status, answer = await long
    assert (status, answer["reason"]) == (404, "NotFound")


async def test_a_kind_that_is_served_no_more_meanwhile_is_not_found(server: Server) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    names = {"plural": "things", "kind": "Thing"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "x.io", "scope": "Namespaced", "names": names, "versions": [version]}
    await ended(server.answer(request("POST", definitions, named("things.x.io", spec=spec))))
    thing = {"apiVersion": "x.io/v1", "kind": "Thing", **named("long", **LONG)}
    path = "/apis/x.io/v1/namespaces/default/things"
    long = begun(server.answer(request("POST", path, thing)))
    await asyncio.sleep(0)
    server.answer(request("DELETE", f"{definitions}/things.x.io"))
    assert (await long)[0] == 404


async def test_a_long_object_counts_in_quotas(server: Server, store: Store) -> None:
    quota = named("few", spec={"hard": {"count/configmaps": "3"}})
    server.answer(request("POST", "/api/v1/namespaces/default/resourcequotas", quota))
    status, _ = await ended(server.answer(request("POST", MAPS, named("long", **LONG))))
    assert status == 201
    server.answer(request("POST", MAPS, named("short")))
    used = store.get(BY_KIND["v1", "ResourceQuota"], "default", "few")["status"]["used"]
    assert used == {"count/configmaps": "3"}
    status, _ = await ended(server.answer(request("POST", MAPS, named("longer", **LONG))))
    assert status == 403


async def test_two_services_never_share_an_address(server: Server) -> None:
    path = "/api/v1/namespaces/default/services"
    spec = {"clusterIP": "10.96.0.77", "ports": [{"port": 80}]}
    notes = {"annotations": {"example.com/long": "x" * long_requests.LONG_BODY}}
    long = asyncio.ensure_future(
        ended(
            server.answer(request("POST", path, {"metadata": {"name": "a", **notes}, "spec": spec}))
        )
    )
    await asyncio.sleep(0)
    short = await ended(server.answer(request("POST", path, named("b", spec=spec))))
    assert sorted([(await long)[0], short[0]]) == [201, 422]


@pytest.mark.parametrize(
    ("method", "body", "how", "code"),
    [
        ("POST", {**named("A"), **LONG}, "application/json", 422),
        ("POST", b"{" + b" " * long_requests.LONG_BODY, "application/json", 400),
        ("POST", b'{"a":' * 100_000, "application/json", 400),
        ("POST", {**named("a"), **LONG}, "text/plain", 415),
    ],
)
async def test_a_long_body_is_refused_as_a_short_one(
    server: Server, method: str, body: Any, how: str, code: int
) -> None:
    status, answer = await ended(server.answer(request(method, MAPS, body, how)))
    assert (status, answer["code"]) == (code, code)


async def test_a_dry_run_of_a_long_write_writes_nothing(server: Server, store: Store) -> None:
    revision = store.revision
    asked = request("POST", MAPS, named("long", **LONG), dryRun="All")
    assert (await ended(server.answer(asked)))[0] == 201
    assert store.revision == revision


async def test_a_small_patch_of_a_large_object_is_long(server: Server) -> None:
    await ended(server.answer(request("POST", MAPS, named("long", **LONG))))
    patch = request("PATCH", f"{MAPS}/long", {"data": {"short": "y"}}, MERGE)
    assert (await begun(server.answer(patch)))[0] == 200


@pytest.fixture
def many(store: Store) -> int:
    count = long_requests.LONG_LIST + 1
    for number in range(count):
        Api(store).create(BY_KIND["v1", "Pod"], "default", pod(f"p{number}"))
    return count


@pytest.mark.parametrize("accept", ["application/json", "application/yaml"])
async def test_a_long_list_is_formed_beside_the_loop(
    server: Server, many: int, accept: str
) -> None:
    asked = request("GET", PODS)
    asked = msgspec.structs.replace(asked, headers={"host": "localhost", "accept": accept})
    found: list[Response | Follow] = []
    assert calls_of(lambda: found.append(server.answer(asked))) < 10 * many
    assert isinstance(found[0], Later)
    response = await in_one(found[0])
    assert response.content_type == accept
    assert response.body.count(b"default-scheduler") == many


async def test_a_large_collection_is_deleted_in_pieces(
    server: Server, store: Store, many: int
) -> None:
    others = 0
    deletion = begun(server.answer(request("DELETE", PODS)))
    while not deletion.done():
        await asyncio.sleep(0)
        others += isinstance(server.answer(request("GET", "/version")), Response)
    status, answer = await deletion
    assert (status, len(answer["items"])) == (200, many)
    assert others >= many // long_requests.PIECE
    assert store.count(BY_KIND["v1", "Pod"]) == 0
