"""Events of events.k8s.io/v1 and core/v1: each API shows the same object under its own
field names.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from berth.actors.client.rest import ApiError, Client, Connection
from berth.tools.cluster.apiserver.app import serve
from berth.tools.cluster.apiserver.journal import Journal
from tests.kit.documents import Document

CORE = "/api/v1/namespaces/default/events"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
ABOUT = {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "web", "uid": "u"}
PREEMPTOR = {**ABOUT, "name": "large", "uid": "v"}
TOLD: Document = {
    "metadata": {"name": "web.1", "namespace": "default"},
    "eventTime": "2026-01-01T00:00:00.250000Z",
    "reportingController": "default-scheduler",
    "reportingInstance": "default-scheduler-here",
    "action": "Preempting",
    "reason": "Preempted",
    "regarding": ABOUT,
    "related": PREEMPTOR,
    "note": "Preempted by pod v on node n",
    "type": "Normal",
}
SERIES = {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}
# The same fields under the names of the other API.
RENAMED = {
    "reportingController": "reportingComponent",
    "regarding": "involvedObject",
    "note": "message",
}
OLD: Document = {
    "metadata": {"name": "web.2", "namespace": "default"},
    "involvedObject": ABOUT,
    "reason": "BackOff",
    "message": "it waits",
    "source": {"component": "kubelet", "host": "n1"},
    "firstTimestamp": "2026-01-01T00:00:00Z",
    "lastTimestamp": "2026-01-01T00:00:30Z",
    "count": 3,
    "type": "Warning",
}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with serve() as url, Client(Connection(url)) as connected:
        yield connected


def without_metadata(document: Document) -> Document:
    """Returns what an event says; fields that every event has are left out if they are empty."""
    return {
        name: value
        for name, value in document.items()
        if name not in ("metadata", "apiVersion", "kind") and value not in (None, "", {})
    }


async def refusal(
    client: Client, method: str, path: str, body: Document, kind: str = "merge"
) -> ApiError:
    with pytest.raises(ApiError) as refused:
        await (
            client.patch(path, body, dict, kind)
            if method == "PATCH"
            else client.call(method, path, dict, body)
        )
    return refused.value


async def test_an_event_written_to_one_api_is_read_from_the_other(client: Client) -> None:
    created = await client.call("POST", EVENTS, dict, TOLD)
    assert (created["apiVersion"], created["kind"]) == ("events.k8s.io/v1", "Event")
    assert without_metadata(created) == without_metadata(TOLD)
    read = await client.call("GET", f"{CORE}/web.1", dict)
    assert (read["apiVersion"], read["kind"]) == ("v1", "Event")
    assert without_metadata(read) == {
        RENAMED.get(k, k): v for k, v in without_metadata(TOLD).items()
    }
    assert created["metadata"] == read["metadata"]

    await client.call("POST", CORE, dict, OLD)
    shown = await client.call("GET", f"{EVENTS}/web.2", dict)
    assert shown["deprecatedSource"] == OLD["source"]
    assert (shown["deprecatedFirstTimestamp"], shown["deprecatedLastTimestamp"]) == (
        OLD["firstTimestamp"],
        OLD["lastTimestamp"],
    )
    assert (shown["deprecatedCount"], shown["note"], shown["regarding"]) == (3, "it waits", ABOUT)
    for path, version in ((CORE, "v1"), (EVENTS, "events.k8s.io/v1")):
        listed = await client.call("GET", path, dict)
        assert (listed["apiVersion"], listed["kind"]) == (version, "EventList")
        assert [(listed["apiVersion"], item["metadata"]["name"]) for item in listed["items"]] == [
            (version, "web.1"),
            (version, "web.2"),
        ]
    await client.call("DELETE", f"{EVENTS}/web.1", dict)
    with pytest.raises(ApiError, match=r'events "web\.1" not found'):
        await client.call("GET", f"{CORE}/web.1", dict)


async def test_a_patch_may_change_only_the_series_of_an_event(client: Client) -> None:
    await client.call("POST", EVENTS, dict, TOLD)
    counted = await client.patch(f"{EVENTS}/web.1", {"series": SERIES}, dict)
    assert counted["series"] == SERIES
    read = await client.call("GET", f"{CORE}/web.1", dict)
    assert (read["series"], read["message"]) == (SERIES, TOLD["note"])
    for change, problem in (
        ({"note": "other"}, "message: Invalid value"),
        ({"regarding": {"name": "other"}}, "involvedObject: Invalid value"),
        ({"type": "Warning"}, "type: Invalid value"),
        ({"series": {"count": 1}}, 'series.count: Invalid value: "": should be at least 2'),
    ):
        refused = await refusal(client, "PATCH", f"{EVENTS}/web.1", change)
        assert (refused.code, problem in str(refused)) == (422, True), str(refused)
    patched = await client.patch(f"{CORE}/web.1", {"message": "other"}, dict)
    assert patched["message"] == "other"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"eventTime": None}, "eventTime: Required value"),
        ({"reportingController": ""}, "reportingController: Required value"),
        ({"reportingInstance": ""}, "reportingInstance: Required value"),
        (
            {"reportingInstance": "i" * 129},
            'reportingInstance: Invalid value: "": can have at most 128 characters',
        ),
        ({"action": ""}, "action: Required value"),
        ({"reason": ""}, "reason: Required value"),
        ({"note": "n" * 1025}, 'message: Invalid value: "": can have at most 1024 characters'),
        ({"type": "Odd"}, 'type: Invalid value: "": has invalid value: Odd'),
        ({"deprecatedCount": 1}, 'count: Invalid value: "": needs to be unset'),
        ({"deprecatedSource": {"component": "c"}}, 'source: Invalid value: "": needs to be unset'),
        (
            {"deprecatedFirstTimestamp": OLD["firstTimestamp"]},
            'firstTimestamp: Invalid value: "": needs to be unset',
        ),
        (
            {"series": {"count": 1, "lastObservedTime": TOLD["eventTime"]}},
            "series.count: Invalid value",
        ),
        ({"series": {"count": 2}}, "series.lastObservedTime: Required value"),
        ({"regarding": {"kind": "Node", "name": "n"}, "eventTime": TOLD["eventTime"]}, None),
    ],
)
async def test_the_required_fields_of_the_new_api(
    client: Client, change: Document, problem: str | None
) -> None:
    if problem is None:
        await client.call("POST", EVENTS, dict, {**TOLD, **change})
        return
    refused = await refusal(client, "POST", EVENTS, {**TOLD, **change})
    assert (refused.code, problem in str(refused)) == (422, True), str(refused)


async def test_fields_of_the_other_api_are_unknown(client: Client) -> None:
    created = await client.call("POST", EVENTS, dict, {**TOLD, "message": "no", "count": 7})
    assert created["note"] == TOLD["note"]
    assert "deprecatedCount" not in created
    refused = await refusal(
        client, "POST", f"{EVENTS}?fieldValidation=Strict", {**TOLD, "message": "no"}
    )
    assert 'unknown field "message"' in str(refused)


@pytest.mark.parametrize(
    ("path", "selector", "names"),
    [
        (EVENTS, "regarding.name=web,regarding.kind=Pod", ["web.1", "web.2"]),
        (EVENTS, "reportingController=default-scheduler", ["web.1"]),
        (EVENTS, "reason=BackOff,type=Warning", ["web.2"]),
        (CORE, "involvedObject.name=web,reason!=BackOff", ["web.1"]),
        (CORE, "source=default-scheduler", ["web.1"]),
        (CORE, "source=kubelet", ["web.2"]),
        (CORE, "reportingComponent=default-scheduler", ["web.1"]),
    ],
)
async def test_each_api_selects_by_its_own_field_names(
    client: Client, path: str, selector: str, names: list[str]
) -> None:
    await client.call("POST", EVENTS, dict, TOLD)
    await client.call("POST", CORE, dict, OLD)
    listed = await client.call("GET", f"{path}?fieldSelector={selector}", dict)
    assert [item["metadata"]["name"] for item in listed["items"]] == names
    other = "involvedObject.name=web" if path == EVENTS else "regarding.name=web"
    refused = await refusal(client, "GET", f"{path}?fieldSelector={other}", {})
    assert "field label not supported" in str(refused)


async def test_both_apis_can_be_watched() -> None:
    async with (
        serve() as url,
        Client(Connection(url)) as client,
        aiohttp.ClientSession() as session,
    ):
        for path, version, note in ((CORE, "v1", "message"), (EVENTS, "events.k8s.io/v1", "note")):
            created = await client.call(
                "POST", EVENTS, dict, {**TOLD, "metadata": {"name": f"web.{note}"}}
            )
            before = int(created["metadata"]["resourceVersion"]) - 1
            async with session.get(f"{url}{path}?watch=1&resourceVersion={before}") as watch:
                seen = json.loads(await watch.content.readline())["object"]
            expected = (version, created["metadata"], TOLD["note"])
            assert (seen["apiVersion"], seen["metadata"], seen[note]) == expected


async def test_a_table_shows_events_of_either_api() -> None:
    async with (
        serve() as url,
        Client(Connection(url)) as client,
        aiohttp.ClientSession() as session,
    ):
        await client.call("POST", EVENTS, dict, {**TOLD, "series": SERIES})
        for path, version in ((CORE, "v1"), (EVENTS, "events.k8s.io/v1")):
            accept = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
            async with session.get(f"{url}{path}?includeObject=Object", headers=accept) as answer:
                table = await answer.json()
            names = [column["name"] for column in table["columnDefinitions"]]
            (row,) = table["rows"]
            cells = dict(zip(names, row["cells"], strict=True))
            expected = ("pod/web", 2, TOLD["note"])
            assert (cells["Object"], cells["Count"], cells["Message"]) == expected
            assert cells["Source"] == "default-scheduler, default-scheduler-here"
            assert row["object"]["apiVersion"] == version


async def test_both_apis_show_one_object_after_a_restart(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        async with serve(store=journal.store) as url, Client(Connection(url)) as client:
            await client.call("POST", EVENTS, dict, TOLD)
    with Journal(tmp_path / "journal") as journal:
        async with serve(store=journal.store) as url, Client(Connection(url)) as client:
            for path, note in ((CORE, "message"), (EVENTS, "note")):
                assert (await client.call("GET", f"{path}/web.1", dict))[note] == TOLD["note"]
