"""The API over HTTP: paths, pages, watches, tables and invalid bodies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest

from berth.tools.cluster.apiserver.app import serve
from berth.tools.cluster.apiserver.compaction import compacted
from berth.tools.kubernetes.api.requests.flow_limits import FlowLimits
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.tables import table
from berth.tools.kubernetes.api.types.releases import RELEASES
from berth.tools.kubernetes.api.types.resources import BY_KIND, KINDS, Kind
from tests.kit.custom_kinds import SHIRTS, define, definition, shirt
from tests.kit.documents import Document, pod
from tests.kit.stores import fresh_store

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
NOT_OLDER = "resourceVersionMatch=NotOlderThan"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


class Server:
    def __init__(self, url: str, session: aiohttp.ClientSession, store: Store) -> None:
        self.url = url
        self.session = session
        self.store = store

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        how: str = "application/json",
        **headers: str,
    ) -> tuple[int, Any]:
        data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        sent = {"Content-Type": how, **headers}
        async with self.session.request(method, self.url + path, data=data, headers=sent) as answer:
            return answer.status, msgspec.json.decode(await answer.read() or b"null")

    async def create(self, *names: str, label: str = "x") -> list[Document]:
        created = []
        for name in names:
            status, document = await self.call(
                "POST", MAPS, {"metadata": {"name": name, "labels": {"l": label}}}
            )
            assert status == 201
            created.append(document)
        return created

    @asynccontextmanager
    async def watch(
        self, query: str, path: str = MAPS, **headers: str
    ) -> AsyncIterator[AsyncIterator[Document]]:
        async with self.session.get(
            f"{self.url}{path}?watch=true&{query}", headers=headers
        ) as answer:
            assert answer.status == 200, await answer.text()

            async def lines() -> AsyncIterator[Document]:
                async for line in answer.content:
                    yield msgspec.json.decode(line)

            async with asyncio.timeout(30):
                yield lines()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    store = fresh_store(history=20)
    async with serve(store=store) as url, aiohttp.ClientSession() as session:
        store.delete(BY_KIND["v1", "ConfigMap"], "default", "kube-root-ca.crt")
        yield Server(url, session, store)


def told(event: Document) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"].get("name", "")


async def test_a_list_comes_in_pages(server: Server) -> None:
    await server.create(*"abcde")
    status, first = await server.call("GET", f"{MAPS}?limit=2&labelSelector=l=x")
    assert (status, [item["metadata"]["name"] for item in first["items"]]) == (200, ["a", "b"])
    assert "remainingItemCount" not in first["metadata"], "Kubernetes does not count a selection"
    _, whole = await server.call("GET", f"{MAPS}?limit=2")
    assert whole["metadata"]["remainingItemCount"] == 3
    await server.create("f")
    names, token = [], first["metadata"]["continue"]
    while token:
        _, page = await server.call("GET", f"{MAPS}?limit=2&continue={token}")
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue", "")
    assert names == ["c", "d", "e"], "the list shows what came after its first page"
    server.store.compact()
    await server.create("g")
    status, refusal = await server.call(
        "GET", f"{MAPS}?limit=2&continue={first['metadata']['continue']}"
    )
    assert (status, refusal["reason"]) == (410, "Expired")
    _, rest = await server.call("GET", f"{MAPS}?continue={refusal['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in rest["items"]] == [*"cdefg"]


async def test_a_watch_continues_at_the_version_of_a_list(server: Server) -> None:
    (a,) = await server.create("a")
    _, listed = await server.call("GET", MAPS)
    async with server.watch(f"resourceVersion={listed['metadata']['resourceVersion']}") as events:
        await server.create("b")
        await server.call(
            "PATCH", f"{MAPS}/a", {"data": {"k": "v"}}, "application/merge-patch+json"
        )
        await server.call("DELETE", f"{MAPS}/a")
        seen = [await anext(events) for _ in range(3)]
    assert [told(event) for event in seen] == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "a")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions == sorted(set(versions))
    assert versions[0] > int(a["metadata"]["resourceVersion"])


async def test_a_watch_reports_objects_that_enter_or_leave_its_selection(server: Server) -> None:
    await server.create("a", label="y")
    async with server.watch("labelSelector=l=x") as events:
        for label in ("x", "x", "y"):
            body = {"metadata": {"labels": {"l": label}}, "data": {"label": label}}
            await server.call("PATCH", f"{MAPS}/a", body, "application/merge-patch+json")
            await server.create(f"other-{label}-{server.store.revision}", label="z")
        await server.create("b")
        expected = [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b")]
        assert [told(await anext(events)) for _ in range(3)] == expected


async def test_a_pod_that_finishes_is_deleted_for_a_watch_without_finished_pods(
    server: Server,
) -> None:
    pods = "/api/v1/namespaces/default/pods"
    container = {"name": "c", "image": "i"}
    for name in "ab":
        await server.call(
            "POST", pods, {"metadata": {"name": name}, "spec": {"containers": [container]}}
        )
    query = "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
    async with server.watch(query, "/api/v1/pods") as events:
        assert [told(await anext(events)) for _ in range(2)] == [("ADDED", "a"), ("ADDED", "b")]
        for phase in ("Running", "Succeeded", "Failed", "Running"):
            body = {"status": {"phase": phase}}
            await server.call("PATCH", f"{pods}/a/status", body, "application/merge-patch+json")
        seen = [await anext(events) for _ in range(3)]
    assert [(*told(event), event["object"]["status"]["phase"]) for event in seen] == [
        ("MODIFIED", "a", "Running"),
        ("DELETED", "a", "Running"),  # as it was while it was selected
        ("ADDED", "a", "Running"),
    ]
    await server.call(
        "PATCH", f"{pods}/b/status", {"status": {"phase": "Failed"}}, "application/merge-patch+json"
    )
    _, listed = await server.call("GET", f"/api/v1/pods?limit=10&{query}")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]


async def test_a_watch_list_sends_a_bookmark_after_the_initial_objects(server: Server) -> None:
    await server.create("a", "b")
    query = f"sendInitialEvents=true&allowWatchBookmarks=true&{NOT_OLDER}"
    async with server.watch(query) as events:
        seen = [await anext(events) for _ in range(3)]
        assert [told(event) for event in seen] == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")]
        mark = seen[-1]["object"]["metadata"]
        assert mark["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert mark["resourceVersion"] == str(server.store.revision)
        await server.create("c")
        assert told(await anext(events)) == ("ADDED", "c")
    async with server.watch(f"sendInitialEvents=false&{NOT_OLDER}") as events:
        await server.create("d")
        assert told(await anext(events)) == ("ADDED", "d")


@pytest.mark.parametrize("bookmarks", [True, False])
async def test_a_watch_from_no_version_sends_a_bookmark_if_the_client_allows_it(
    server: Server, bookmarks: bool
) -> None:
    await server.create("a")
    async with server.watch("allowWatchBookmarks=true" if bookmarks else "") as events:
        assert told(await anext(events)) == ("ADDED", "a")
        if bookmarks:
            mark = (await anext(events))["object"]["metadata"]
            assert mark["annotations"] == {"k8s.io/initial-events-end": "true"}
        await server.create("b")
        assert told(await anext(events)) == ("ADDED", "b")


@pytest.mark.parametrize("query", ["watch=true&sendInitialEvents=true", NOT_OLDER])
async def test_options_of_a_list_that_exclude_each_other_are_refused(
    server: Server, query: str
) -> None:
    status, refusal = await server.call("GET", f"{MAPS}?{query}")
    assert (status, refusal["reason"]) == (422, "Invalid")


async def test_a_streamed_list_from_a_version_to_come_is_refused(server: Server) -> None:
    query = f"watch=true&sendInitialEvents=true&{NOT_OLDER}&allowWatchBookmarks=true"
    async with server.watch(f"{query}&resourceVersion=10000") as events:
        refusal = (failed := await anext(events))["object"]
    assert (failed["type"], refusal["code"], refusal["reason"]) == ("ERROR", 504, "Timeout")
    assert refusal["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert "Too large resource version: 10000" in refusal["message"]


async def test_a_quiet_watch_gets_bookmarks_with_the_revision(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.tools.cluster.apiserver.watch.BOOKMARK_SECONDS", 0.05)
    (a,) = await server.create("a")
    async with server.watch(
        f"allowWatchBookmarks=true&resourceVersion={a['metadata']['resourceVersion']}"
    ) as events:
        await server.call("POST", PODS, pod("p"))
        mark = await anext(events)
        while mark["object"]["metadata"]["resourceVersion"] != str(server.store.revision):
            mark = await anext(events)
        assert told(mark) == ("BOOKMARK", "")


@pytest.mark.full("long")
async def test_a_watch_ends_after_its_timeout_and_refuses_expired_versions(server: Server) -> None:
    async with server.watch("timeoutSeconds=1") as events:
        assert [event async for event in events] == []
    await server.create(*(f"m{number}" for number in range(25)))
    for revision in (1, 10_000):
        async with server.watch(f"resourceVersion={revision}") as events:
            refusal = (failed := await anext(events))["object"]
            assert (failed["type"], refusal["code"], refusal["reason"]) == ("ERROR", 410, "Expired")
            assert [event async for event in events] == []
    for seconds in ("1", "1" + "0" * 30):
        async with server.watch(
            f"timeoutSeconds={seconds}&sendInitialEvents=true&{NOT_OLDER}"
        ) as events:
            assert told(await anext(events)) == ("ADDED", "m0")
    for query in (
        "timeoutSeconds=nan",
        "fieldSelector=data.k=v",
        "labelSelector=a in (",
    ):
        status, refusal = await server.call("GET", f"{MAPS}?watch=true&{query}")
        assert (status, refusal["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize("path", [f"{MAPS}/a", f"{MAPS}?watch=true"])
async def test_a_version_that_is_no_number_is_an_error_as_in_kubernetes(
    server: Server, path: str
) -> None:
    await server.create("a")
    sign = "&" if "?" in path else "?"
    status, told = await server.call("GET", f"{path}{sign}resourceVersion=x")
    assert (status, "reason" in told, "details" in told) == (500, False, False)
    assert told["message"].startswith('resourceVersion: Invalid value: "x": strconv.ParseUint')


@pytest.mark.full("waits")
@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("/api/v1/watch/namespaces/default/configmaps", ["a", "b"]),
        ("/api/v1/watch/namespaces/default/configmaps/b", ["b"]),
        ("/api/v1/watch/configmaps", ["a", "b"]),
        ("/apis/apps/v1/watch/namespaces/default/deployments", []),
        ("/api/v1/watch/namespaces/default", ["default"]),
    ],
)
async def test_the_deprecated_paths_of_watches(server: Server, path: str, seen: list[str]) -> None:
    await server.create("a", "b")
    query = "?timeoutSeconds=1&fieldSelector=metadata.name!=kube-root-ca.crt"
    async with server.session.get(f"{server.url}{path}{query}") as answer:
        assert answer.status == 200
        told = [msgspec.json.decode(line) for line in (await answer.read()).splitlines()]
    shown = [each["object"]["metadata"] for each in told]
    assert [each["name"] for each in shown if each.get("namespace") != "kube-system"] == seen


async def test_the_history_is_compacted_by_time() -> None:
    """The events of the latest interval stay, and a watch goes on."""
    store = fresh_store()
    async with (
        serve(store=store) as url,
        compacted(store, 0.1),
        aiohttp.ClientSession() as session,
    ):
        server = Server(url, session, store)
        (first,) = await server.create("a")
        await server.create("b")
        version = first["metadata"]["resourceVersion"]
        query = f"sendInitialEvents=false&{NOT_OLDER}"
        async with asyncio.timeout(30), server.watch(query) as events:
            while True:
                await asyncio.sleep(0.05)
                async with server.watch(f"timeoutSeconds=1&resourceVersion={version}") as old:
                    seen = await anext(old)
                if seen["type"] == "ERROR":
                    break
            assert seen["object"]["message"].startswith("too old resource version: ")
            await server.create("c")
            assert told(await anext(events)) == ("ADDED", "c")


async def test_what_kubectl_prints_is_a_table(server: Server) -> None:
    await server.create("a", "b", "c")
    _, printed = await server.call("GET", f"{MAPS}?limit=2", None, **TABLE)
    assert printed["kind"] == "Table"
    assert [column["name"] for column in printed["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert [row["cells"][0] for row in printed["rows"]] == ["a", "b"]
    assert printed["metadata"]["continue"]
    async with server.watch("allowWatchBookmarks=true", **TABLE) as events:
        seen = [await anext(events) for _ in range(4)]
    assert [told(event)[0] for event in seen] == [*["ADDED"] * 3, "BOOKMARK"]
    assert [event["object"]["rows"][0]["cells"][0] for event in seen] == ["a", "b", "c", ""]
    assert [bool(event["object"]["columnDefinitions"]) for event in seen] == [True, *[False] * 3]
    (mark,) = seen[-1]["object"]["rows"]
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_watch_shows_the_metadata_that_a_client_asks_for(server: Server) -> None:
    await server.create("a")
    form = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    async with server.watch("allowWatchBookmarks=true", Accept=form) as events:
        seen = [await anext(events) for _ in range(2)]
        await server.call("PATCH", f"{MAPS}/a", {"data": {"k": "v"}}, MERGE)
        seen.append(await anext(events))
    assert [told(event) for event in seen] == [("ADDED", "a"), ("BOOKMARK", ""), ("MODIFIED", "a")]
    kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    assert all(kind.items() <= event["object"].items() for event in seen)
    assert {*seen[-1]["object"]} == {*kind, "metadata"}


async def test_a_form_of_an_event_is_encoded_once_for_all_watchers(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def counted(kind: Kind, documents: list[Document], **how: Any) -> Document:
        made.extend(document["metadata"].get("name", "") for document in documents)
        return table(kind, documents, **how)

    monkeypatch.setattr("berth.tools.kubernetes.api.tables.table", counted)
    await server.create("a")
    async with AsyncExitStack() as stack:
        watches = [await stack.enter_async_context(server.watch("", **TABLE)) for _ in range(5)]
        for events in watches:
            assert told(await anext(events))[0] == "ADDED"
        made.clear()
        await server.create("b", "c")
        for events in watches:
            cells = [(await anext(events))["object"]["rows"][0]["cells"][0] for _ in range(2)]
            assert cells == ["b", "c"]
    assert made == ["b", "c"]


async def test_many_initial_objects_come_in_pieces(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.tools.cluster.apiserver.watch.PIECE", 3)
    await server.create(*"abcdefgh")
    async with server.watch("allowWatchBookmarks=true") as events:
        await server.create("i")
        seen = [told(await anext(events)) for _ in range(10)]
    assert seen == [*(("ADDED", name) for name in "abcdefgh"), ("BOOKMARK", ""), ("ADDED", "i")]


@pytest.mark.parametrize("size", [1000, 200_000, 2_000_000])
async def test_a_large_answer_is_compressed_for_who_accepts_gzip(server: Server, size: int) -> None:
    body = {"metadata": {"name": "a"}, "data": {"k": "v" * (size // 2)}}
    assert (await server.call("POST", MAPS, body))[0] == 201
    await server.call("POST", MAPS, {**body, "metadata": {"name": "b"}})
    sent: list[Any] = []
    for accepted in ("gzip, deflate", "identity"):
        headers = {"Accept-Encoding": accepted}
        async with server.session.get(server.url + MAPS, headers=headers) as answer:
            expected = "gzip" if accepted != "identity" and size > 1000 else None
            assert answer.headers.get("Content-Encoding") == expected
            assert answer.headers.get("Vary") == ("Accept-Encoding" if expected else None)
            assert expected is None or int(answer.headers["Content-Length"]) < size / 50
            sent.append(await answer.json())
    assert sent[0] == sent[1]


@pytest.mark.parametrize(
    ("timeout", "problem"),
    [
        ("10s", ""),
        ("1h0m0.5s", ""),
        ("0", ""),
        ("-1.5ms", ""),
        ("x", 'invalid duration "x"'),
        ("-", 'invalid duration "-"'),
        ("5", 'missing unit in duration "5"'),
        ("5y", 'unknown unit "y" in duration "5y"'),
    ],
)
async def test_a_timeout_is_a_duration(server: Server, timeout: str, problem: str) -> None:
    status, told = await server.call("GET", f"{MAPS}?timeout={timeout}")
    if not problem:
        assert status == 200
    else:
        expected = f"invalid timeout specified in the request URL - time: {problem}"
        assert (status, told["message"]) == (400, expected)


async def test_a_client_that_asks_too_much_is_told_to_wait() -> None:
    limits = FlowLimits(per_second=5)
    store = fresh_store()
    async with serve(store=store, limits=limits) as url, aiohttp.ClientSession() as session:

        async def ask(agent: str) -> aiohttp.ClientResponse:
            return await session.get(url + MAPS, headers={"User-Agent": agent})

        answers = [await ask("greedy/1.0 (linux)") for _ in range(30)]
        assert [answer.status for answer in answers[:10]] == [200] * 10
        refused = answers[-1]
        assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
        assert (await refused.json())["reason"] == "TooManyRequests"
        assert (await ask("modest/1.0")).status == 200


async def test_a_dry_run_changes_nothing(server: Server) -> None:
    revision = server.store.revision
    status, created = await server.call("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "a"}})
    assert (status, created["metadata"]["name"]) == (201, "a")
    assert "resourceVersion" not in created["metadata"]
    assert server.store.revision == revision
    await server.create("a")
    _, stored = await server.call("GET", f"{MAPS}/a")
    change = {"metadata": {"name": "a"}, "data": {"k": "changed"}}
    _, tried = await server.call("PUT", f"{MAPS}/a?dryRun=All", change)
    assert tried["data"] == {"k": "changed"}
    assert tried["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    status, _ = await server.call("DELETE", f"{MAPS}/a", {"dryRun": ["All"]})
    assert (status, (await server.call("GET", f"{MAPS}/a"))[0]) == (200, 200)


async def test_a_deletion_answers_with_a_status_or_with_what_remains(server: Server) -> None:
    (gone,) = await server.create("a")
    _, answer = await server.call("DELETE", f"{MAPS}/a")
    assert answer == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": gone["metadata"]["uid"]},
    }
    held = {"metadata": {"name": "b", "finalizers": ["berth.dev/f"]}}
    await server.call("POST", MAPS, held)
    _, answer = await server.call("DELETE", f"{MAPS}/b")
    assert (answer["kind"], answer["metadata"]["finalizers"]) == ("ConfigMap", ["berth.dev/f"])
    await server.call("POST", PODS, pod("p"))
    _, answer = await server.call("DELETE", f"{PODS}/p")
    assert (answer["kind"], answer["metadata"]["name"]) == ("Pod", "p")


async def test_a_collection_is_deleted_by_selector(server: Server) -> None:
    await server.create("a", "b")
    await server.create("c", label="y")
    _, answer = await server.call("DELETE", f"{MAPS}?labelSelector=l=x")
    assert answer["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "b"]
    assert [item["metadata"]["name"] for item in (await server.call("GET", MAPS))[1]["items"]] == [
        "c"
    ]
    status, refusal = await server.call("DELETE", "/api/v1/configmaps")
    assert (status, refusal["reason"]) == (405, "MethodNotAllowed")


async def test_unknown_fields_cause_a_warning_or_a_refusal(server: Server) -> None:
    body = b'{"metadata":{"name":"a"},"boat":1,"data":{"k":"1","k":"2"}}'
    how = {"Content-Type": "application/json"}
    async with server.session.post(server.url + MAPS, data=body, headers=how) as answer:
        assert answer.headers.getall("Warning") == [
            '299 - "unknown field \\"boat\\""',
            '299 - "duplicate field \\"data.k\\""',
        ]
        assert "boat" not in await answer.json()
    status, refusal = await server.call("POST", f"{MAPS}?fieldValidation=Strict", body)
    assert status == 400
    assert (
        'strict decoding error: unknown field "boat", duplicate field "data.k"'
        in refusal["message"]
    )


async def test_a_key_that_yaml_has_twice_counts_once_or_is_refused(server: Server) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  k: '1'\n  k: '2'\n"
    how = {"Content-Type": "application/yaml"}
    async with server.session.post(
        f"{server.url}{MAPS}?fieldValidation=Strict", data=body, headers=how
    ) as answer:
        assert answer.status == 400
        message = (
            'strict decoding error: yaml: unmarshal errors:\n  line 6: key "k" already set in map'
        )
        assert message in (await answer.json())["message"]
    async with server.session.post(server.url + MAPS, data=body, headers=how) as answer:
        assert (await answer.json())["data"] == {"k": "2"}


async def test_every_kind_is_discovered_and_listed(server: Server) -> None:
    server.store.release = RELEASES["1.37"]
    for kind in KINDS:
        group = f"/apis/{kind.group}/{kind.version}" if kind.group else "/api/v1"
        _, listing = await server.call("GET", group)
        entry = next(entry for entry in listing["resources"] if entry["name"] == kind.plural)
        assert (entry["kind"], entry["namespaced"]) == (kind.kind, kind.namespaced)
        status, listed = await server.call("GET", kind.path())
        expected = (200, f"{kind.kind}List", kind.api_version)
        assert (status, listed["kind"], listed["apiVersion"]) == expected


MERGE, STRATEGIC, JSON_PATCH, APPLY = (
    f"application/{form}"
    for form in (
        "merge-patch+json",
        "strategic-merge-patch+json",
        "json-patch+json",
        "apply-patch+yaml",
    )
)


@pytest.mark.parametrize(
    ("call", "body", "how", "answer"),
    [
        ("GET /apis/apps/v9", None, "", "404 could not find the requested resource"),
        ("GET /api/v1/boats", None, "", "404 could not find the requested resource"),
        (
            "GET /api/v1/namespaces/default/nodes",
            None,
            "",
            "404 could not find the requested resource",
        ),
        (f"GET {PODS}/p/boat", None, "", "404 could not find the requested resource"),
        (f"GET {PODS}/nobody", None, "", '404 pods "nobody" not found'),
        (f"GET {PODS}/nobody/log", None, "", '404 pods "nobody" not found'),
        (
            f"GET {PODS}/p/proxy",
            None,
            "",
            "405 pod p is hollow: no container runs in it, so there is no proxy",
        ),
        (f"PUT {PODS}/p/log", None, "", "405 does not allow this method"),
        (f"DELETE {PODS}/p/exec", None, "", "405 does not allow this method"),
        (f"PUT {PODS}", {}, "", "405 does not allow this method"),
        (f"GET {PODS}/p/binding", None, "", "405 does not allow this method"),
        (f"GET {PODS}?limit=x", None, "", '400 strconv.ParseInt: parsing "x": invalid'),
        (f"GET {PODS}?continue=x", None, "", "400 invalid continue token: continue key is not"),
        (f"POST {PODS}", b"{", "", "400 unexpected end of JSON input ({)"),
        (f"POST {PODS}", b"", "", "400 unexpected end of JSON input (<empty>)"),
        (f"PUT {PODS}/p", b"", "", "400 unexpected end of JSON input (<empty>)"),
        (f"PUT {PODS}/p", b"null", "", "400 name must be provided"),
        (f"PATCH {PODS}/p", b"", MERGE, "400 error decoding patch: unexpected end"),
        (f"PATCH {PODS}/p", b"", JSON_PATCH, "400 error decoding patch: unexpected end"),
        (f"GET {PODS}/{'p' * 2000}", None, "", "404 could not find the requested resource"),
        (f"POST {PODS}", b"\xff", "", "400 looking for beginning of value (ff)"),
        (f"POST {MAPS}", {"metadata": {}}, "", "422 name or generateName is required"),
        (f"POST {PODS}", [1], "", "400 cannot unmarshal array into Go value"),
        (
            f"POST {PODS}",
            {"kind": "Boat"},
            "",
            '400 Boat in version "v1" cannot be handled as a Pod',
        ),
        (f"POST {PODS}", {"metadata": 5}, "", "400 cannot unmarshal number"),
        (
            f"POST {PODS}",
            {"metadata": {"name": "q"}, "spec": {"containers": [None]}},
            "",
            "422 spec.containers[0].name: Required value",
        ),
        (
            "POST /api/v1/namespaces/nowhere/pods",
            pod("q", namespace="nowhere"),
            "",
            '404 namespaces "nowhere" not found',
        ),
        (
            f"POST {PODS}",
            {**pod("q"), "metadata": {"name": "q", "namespace": "n"}},
            "",
            "400 namespace of the provided",
        ),
        (f"POST {PODS}", pod("p"), "", '409 pods "p" already exists'),
        (f"POST {PODS}/p/binding", {"target": "n"}, "", "400 Binding: Expected"),
        (f"POST {PODS}/p/eviction", {"deleteOptions": "x"}, "", "400 Eviction: Expected"),
        (
            f"DELETE {PODS}/p",
            {"gracePeriodSeconds": "x"},
            "",
            "400 cannot unmarshal string into Go",
        ),
        (f"PATCH {PODS}/p", {}, "text/plain", "415 Unsupported Media Type"),
        (f"PATCH {PODS}/p?fieldManager=m", b"a: [", APPLY, "400 error converting YAML"),
        (f"PATCH {PODS}/q", {"spec": {"containers": "x"}}, APPLY, "422 fieldManager: Required"),
        (
            f"PATCH {PODS}/q?fieldManager=m",
            {"spec": {}},
            APPLY,
            "400 invalid object type: /, Kind=",
        ),
        (f"PATCH {PODS}/p", {"spec": 5}, STRATEGIC, "422 cannot unmarshal number"),
        (f"PATCH {PODS}/p", 5, MERGE, "400 cannot unmarshal number into Go value"),
        (
            f"PATCH {PODS}/p/status",
            [{"op": "add", "path": "/status", "value": 1}],
            JSON_PATCH,
            "422 unmarshal",
        ),
    ],
)
async def test_an_invalid_request_is_refused_with_a_reason(
    server: Server, call: str, body: Any, how: str, answer: str
) -> None:
    (method, path), (status, message) = call.split(" "), answer.split(" ", 1)
    assert (await server.call("POST", PODS, pod("p")))[0] == 201
    revision = server.store.revision
    code, refusal = await server.call(method, path, body, how or "application/json")
    assert (refusal["kind"], refusal["status"]) == ("Status", "Failure")
    assert code == refusal["code"] == int(status)
    assert message in refusal["message"]
    assert server.store.revision == revision


@pytest.mark.parametrize(
    ("how", "body"),
    [
        ("application/json", b"[" * 100_000),
        ("application/json", b'{"a": ' * 100_000),
        ("application/json", b'{"a": \xff}'),
        ("application/json", b'{"metadata": {"name": "\\ud800"}}'),
        ("application/yaml", b"[" * 100_000),
        ("application/yaml", b"a: &a [*a]"),
        ("application/yaml", b"a: 1\n---\nb: 2\n"),
        ("application/yaml", b"\x00"),
        ("application/yaml", b""),
    ],
)
async def test_a_hostile_body_is_a_bad_request(server: Server, how: str, body: bytes) -> None:
    status, told = await server.call("POST", MAPS, body, how)
    assert (status, told["reason"]) == (400, "BadRequest")
    assert told["message"].startswith("the object provided is unrecognized")
    await server.create("still-there")


DEPTHS = (90, 150, 400, 900, 970)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    ("method", "how", "query", "body"),
    [
        ("POST", "application/json", "", b'{"metadata": {"name": "deep"}, "unknown": %b}'),
        (
            "POST",
            "application/json",
            "?fieldValidation=Strict",
            b'{"metadata": {"name": "deep"}, "unknown": %b}',
        ),
        (
            "POST",
            "application/json",
            "",
            b'{"metadata": {"name": "deep", "managedFields": [{"fieldsV1": %b}]}}',
        ),
        ("PATCH", MERGE, "", b'{"unknown": %b}'),
        ("PATCH", STRATEGIC, "", b'{"metadata": {"managedFields": [{"fieldsV1": %b}]}}'),
        (
            "PATCH",
            JSON_PATCH,
            "",
            b'[{"op": "add", "path": "/metadata/managedFields", "value": [{"fieldsV1": %b}]}]',
        ),
        ("PATCH", JSON_PATCH, "", b'[{"op": "add", "path": "/unknown", "value": %b}]'),
    ],
)
async def test_a_deeply_nested_body_is_refused_or_stays_readable(
    server: Server, method: str, how: str, query: str, body: bytes, depth: int
) -> None:
    await server.create("there")
    path = MAPS if method == "POST" else f"{MAPS}/there"
    status, answer = await server.call(
        method, path + query, body % (b'{"a": ' * depth + b"1" + b"}" * depth), how
    )
    refusal = 422 if method == "PATCH" else 400
    assert status in (200, 201, 400, refusal), answer
    if depth < 100 and not query:
        assert status in (200, 201)
    elif b"managedFields" in body:
        assert status in (400, refusal)
    assert (await server.call("GET", MAPS))[0] == 200
    for stored in server.store.list(BY_KIND["v1", "ConfigMap"]):
        assert msgspec.json.decode(stored.raw) == stored.whole


async def test_the_name_of_an_unknown_field_stays_in_its_header(server: Server) -> None:
    body = {"metadata": {"name": "a"}, 'a"\\b\r\nSet-Cookie: x': 1}
    how = {"Content-Type": "application/json"}
    async with server.session.post(
        server.url + MAPS, data=msgspec.json.encode(body), headers=how
    ) as answer:
        assert answer.status == 201
        assert "Set-Cookie" not in answer.headers
        assert answer.headers.getall("Warning") == [
            '299 - "unknown field \\"a\\"\\\\b  Set-Cookie: x\\""'
        ]


async def test_the_warnings_have_kubernetes_limits(server: Server) -> None:
    body = {"metadata": {"name": "a"}, **{f"{i}{'x' * 1000}": 1 for i in range(1000)}}
    how = {"Content-Type": "application/json"}
    async with server.session.post(
        server.url + MAPS, data=msgspec.json.encode(body), headers=how
    ) as answer:
        assert answer.status == 201
        warnings = answer.headers.getall("Warning")
    assert len(warnings) == 16
    assert sum(map(len, warnings)) < 4096 + 16 * 20


async def test_an_object_with_far_too_many_items_is_refused_unread(server: Server) -> None:
    items = b",".join([b"{}"] * 300_000)
    body = b'{"metadata": {"name": "a"}, "spec": {"containers": [%b]}}' % items
    status, refusal = await server.call("POST", PODS, body)
    assert (status, refusal["reason"]) == (400, "BadRequest")
    assert "exceeded max items of 250000 in lists" in refusal["message"]
    body = b'{"metadata": {"name": "a"}, "spec": {"containers": [%b]}}' % items[: 3 * 5000 - 1]
    status, refusal = await server.call("POST", PODS, body)
    assert (status, refusal["reason"], len(refusal["details"]["causes"])) == (422, "Invalid", 1000)


async def test_a_review_is_answered_and_not_stored(server: Server) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    spec = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    revision = server.store.revision
    status, answer = await server.call("POST", path, {"spec": spec})
    assert (status, answer["kind"]) == (201, "SelfSubjectAccessReview")
    assert answer["apiVersion"] == "authorization.k8s.io/v1"
    assert (answer["spec"], answer["status"]["allowed"]) == (spec, True)
    assert server.store.revision == revision
    for method, place in (("GET", path), ("DELETE", path), ("POST", f"{path}/x")):
        assert (await server.call(method, place, {}))[0] == 405


async def test_a_local_review_is_about_its_namespace(server: Server) -> None:
    path = "/apis/authorization.k8s.io/v1/namespaces/lab/localsubjectaccessreviews"
    for namespace, status in (("lab", 201), ("default", 422)):
        attributes = {"verb": "get", "resource": "pods", "namespace": namespace}
        body = {"spec": {"user": "ann", "resourceAttributes": attributes}}
        assert (await server.call("POST", path, body))[0] == status


async def test_the_token_of_an_account_names_its_bearer(server: Server) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    assert (await server.call("POST", f"{accounts}/robot/token", {}))[0] == 404
    await server.call("POST", accounts, {"metadata": {"name": "robot"}})
    status, answer = await server.call("POST", f"{accounts}/robot/token", {})
    assert status == 201
    bearer = {"Authorization": f"Bearer {answer['status']['token']}"}
    _, shown = await server.call(
        "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, **bearer
    )
    assert shown["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"


async def test_the_api_server_has_a_service(server: Server) -> None:
    status, service = await server.call("GET", "/api/v1/namespaces/default/services/kubernetes")
    assert (status, service["spec"]["clusterIP"]) == (200, "10.96.0.1")
    (port,) = service["spec"]["ports"]
    assert (port["name"], port["port"], port["targetPort"]) == ("https", 443, 6443)


async def test_a_port_without_a_number_gets_no_node_port(server: Server) -> None:
    services = "/api/v1/namespaces/default/services"
    spec = {"type": "NodePort", "ports": [{"port": 80}]}
    await server.call("POST", services, {"metadata": {"name": "s"}, "spec": spec})
    patch = {"spec": {"ports": [{"name": "p"}]}}
    status, answer = await server.call("PATCH", f"{services}/s", patch, MERGE)
    assert status == 422
    assert "spec.ports[0].port: Invalid value: 0" in answer["message"]


async def test_an_admission_policy_is_stored_with_its_status_and_enforced(server: Server) -> None:
    group = "/apis/admissionregistration.k8s.io/v1"
    policies = f"{group}/validatingadmissionpolicies"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}
    spec: Document = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false"}],
    }
    policy = {"metadata": {"name": "none"}, "spec": spec, "status": {"observedGeneration": 7}}
    status, created = await server.call("POST", policies, policy)
    assert (status, created["metadata"]["generation"]) == (201, 1)
    assert (created["spec"]["failurePolicy"], created["status"]) == ("Fail", {})
    checked = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "none"},
        "status": {"observedGeneration": 1, "typeChecking": {}},
    }
    apply = {"Content-Type": "application/apply-patch+yaml"}
    where = f"{policies}/none/status?fieldManager=controller&force=true"
    status, applied = await server.call("PATCH", where, checked, **apply)
    assert (status, applied["status"]) == (200, checked["status"])
    binding = {
        "metadata": {"name": "none"},
        "spec": {"policyName": "none", "validationActions": ["Deny"]},
    }
    bindings = f"{group}/validatingadmissionpolicybindings"
    assert (await server.call("POST", MAPS, {"metadata": {"name": "a"}}))[0] == 201
    assert (await server.call("POST", bindings, binding))[0] == 201
    status, refusal = await server.call("POST", MAPS, {"metadata": {"name": "b"}})
    why = "ValidatingAdmissionPolicy 'none' with binding 'none' denied request"
    assert (status, refusal["reason"]) == (422, "Invalid")
    message = f'configmaps "b" is forbidden: {why}: failed expression: false'
    assert refusal["message"] == message
    details = {
        "name": "b",
        "kind": "configmaps",
        "causes": [{"message": f"{why}: failed expression: false"}],
    }
    assert refusal["details"] == details
    status, refusal = await server.call("PUT", f"{policies}/none", policy)
    assert (status, "must be specified for an update" in refusal["message"]) == (422, True)


RBAC = "/apis/rbac.authorization.k8s.io/v1"
BINDING: Document = {
    "metadata": {"name": "b"},
    "roleRef": {"apiGroup": RBAC.split("/")[2], "kind": "ClusterRole", "name": "edit"},
    "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
}


async def test_a_token_gives_the_rights_of_its_service_account(server: Server) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await server.call("POST", accounts, {"metadata": {"name": "robot"}})
    _, issued = await server.call("POST", f"{accounts}/robot/token", {"spec": {}})
    robot = {"Authorization": f"Bearer {issued['status']['token']}"}
    new = {"metadata": {"name": "m"}}
    assert (await server.call("POST", MAPS, new, **robot))[0] == 403
    assert (await server.call("GET", "/api/v1", **robot))[0] == 200
    bindings = f"{RBAC}/namespaces/default/rolebindings"
    assert (await server.call("POST", bindings, BINDING))[0] == 201
    assert (await server.call("POST", MAPS, new, **robot))[0] == 201
    assert (await server.call("GET", MAPS, **robot))[0] == 200
    assert (await server.call("DELETE", MAPS, **robot))[0] == 200
    assert (await server.call("GET", "/api/v1/nodes", **robot))[0] == 403
    await server.call("DELETE", f"{accounts}/robot")
    assert (await server.call("GET", MAPS, **robot))[0] == 401
    assert (await server.call("GET", MAPS, Authorization="Bearer other"))[0] == 401


async def test_an_apply_that_creates_needs_the_right_to_create(server: Server) -> None:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}
    await server.call("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "r"}, "rules": [rule]})
    role = {**BINDING["roleRef"], "name": "r"}
    subjects = [{"kind": "User", "name": "ann", "apiGroup": role["apiGroup"]}]
    bindings = f"{RBAC}/namespaces/default/rolebindings"
    await server.call("POST", bindings, {**BINDING, "roleRef": role, "subjects": subjects})
    apply = {"Content-Type": "application/apply-patch+yaml", "Impersonate-User": "ann"}
    sent = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
    where = f"{MAPS}/m?fieldManager=me"
    status, refusal = await server.call("PATCH", where, sent, **apply)
    assert (status, "cannot create resource" in refusal["message"]) == (403, True)
    await server.call("POST", MAPS, sent)
    assert (await server.call("PATCH", where, sent, **apply))[0] == 200


async def test_headers_name_the_user_for_whom_the_administrator_acts(server: Server) -> None:
    who = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    headers = {"Impersonate-User": "ann", "Impersonate-Extra-a%2Fb": "c"}
    several = [*headers.items(), ("Impersonate-Group", "x, y"), ("Impersonate-Group", "z")]
    where = server.url + who
    async with server.session.post(where, json={}, headers=several) as answer:
        user = (await answer.json())["status"]["userInfo"]
    groups = ["x, y", "z", "system:authenticated"]
    assert user == {"username": "ann", "groups": groups, "extra": {"a/b": ["c"]}}
    status, refusal = await server.call("GET", f"{MAPS}/m", **headers)
    assert (status, refusal["details"]) == (403, {"name": "m", "kind": "configmaps"})
    assert refusal["message"] == (
        'configmaps "m" is forbidden: User "ann" cannot get resource "configmaps" in API group '
        '"" in the namespace "default"'
    )
    assert (await server.call("GET", "/version", **headers))[0] == 200
    assert (await server.call("GET", "/nothing", **headers))[0] == 403


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/default/bindings",
        f"{PODS}/p/binding",
        f"{PODS}/p/eviction",
        "/api/v1/namespaces/default/serviceaccounts/default/token",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    ],
)
@pytest.mark.parametrize("field", ["metadata", "spec", "target", "status"])
async def test_what_is_not_stored_may_be_malformed_anywhere(
    server: Server, path: str, field: str
) -> None:
    status, told = await server.call("POST", path, {field: [{}, 7]})
    assert status < 500, told


async def test_a_fault_of_the_server_is_answered_and_told(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: faults.append(told))
    fault = ValueError("a fault")

    def fail(*_: Any) -> None:
        raise fault

    monkeypatch.setattr("berth.tools.cluster.apiserver.app.target_of", fail)
    status, told = await server.call("GET", MAPS)
    assert (status, told["reason"]) == (500, "InternalError")
    assert [each["exception"] for each in faults] == [fault]
    monkeypatch.undo()
    assert (await server.call("GET", MAPS))[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_writes_of_a_custom_kind_across_all_namespaces(server: Server, method: str) -> None:
    """The handler of custom resources passes them on, to what answers that nothing is there."""
    define(server.store, definition())
    path = SHIRTS.replace("/namespaces/default", "")
    assert (await server.call("GET", path))[0] == 200
    status, refusal = await server.call(method, path, shirt())
    assert (status, refusal["reason"]) == (404, "NotFound")
