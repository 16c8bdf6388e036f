"""A page of an installed package, served by a running scheduler."""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

import aiohttp
import pytest

from tests.kit.daemon import daemon
from tests.kit.logs import capture_logs
from tests.kit.processes import install
from tests.kit.serving import open_to_all, url_of

SOURCE = """
import anyio

from berth.actors.server.request import JSON, Answer
import msgspec

ended = []


def make(view):
    asked, seen = [], {}

    async def live():
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("ended")

    async def fail():
        raise ValueError("no rows")

    async def page(request):
        asked.append(request.path)
        if request.path == "/seats/live":
            view.start(live)
        if request.path == "/seats/broken":
            raise LookupError("no seat")
        if request.path == "/seats/task":
            view.start(fail)
        objects = await view.objects()
        configuration = await view.configuration()
        before = dict(seen)
        seen.update(objects)
        attempts = await view.recorded("default/web-1")
        body = {
            "asked": asked,
            "objects": {kind.kind: sorted(of) for kind, of in objects.items() if of},
            "profiles": [profile.scheduler_name for profile in configuration.profiles],
            "pods alone": [
                kind.kind
                for kind in await view.objects(*(of for of in objects if of.kind == "Pod"))
            ],
            "gates": len(view.feature_gates) > 50,
            "inFlight": (await view.glance()).in_flight,
            "attempts": None if attempts is None else len(attempts.attempts),
            "body": (await request.body()).decode(),
            "same": all(of is objects[kind] for kind, of in (await view.objects()).items()),
            "new": [kind.kind for kind, of in objects.items() if of is not before.get(kind) and of],
        }
        return Answer(msgspec.json.encode(body), content_type=JSON)

    return page
"""


async def test_a_page_sees_the_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "seats", SOURCE, group="berth.pages", seats="seats:make", gone="none:make")
    monkeypatch.syspath_prepend(tmp_path)
    options = open_to_all()
    url = url_of(options)
    async with daemon(options=options) as running, aiohttp.ClientSession() as session:
        running.put_node("node-1")
        running.put_pod("web-1")
        await running.advance(2)
        assert "seats" not in sys.modules
        async with session.post(f"{url}/seats/x", data="b" * 5000, ssl=False) as response:
            assert await response.json() == {
                "asked": ["/seats/x"],
                "objects": {"Node": ["node-1"], "Pod": ["default/web-1"]},
                "profiles": ["default-scheduler"],
                "pods alone": ["Pod"],
                "gates": True,
                "inFlight": 0,
                "attempts": 1,
                "body": "b" * 5000,
                "same": True,
                "new": ["Node", "Pod"],
            }
        running.put_pod("web-2")
        await running.advance(2)
        async with session.post(
            f"{url}/seats", data="b" * 5000, ssl=False, expect100=True
        ) as again:
            body = await again.json()
            assert (body["asked"], body["new"]) == (["/seats/x", "/seats"], ["Pod"])
        long = BytesIO(bytes(5 << 20))
        async with session.post(f"{url}/seats", data=long, ssl=False, expect100=True) as refused:
            assert refused.status == 413
        encoded = {"Content-Encoding": "gzip"}
        with capture_logs() as logs:
            async with session.post(
                f"{url}/seats", data=BytesIO(b"no"), headers=encoded, ssl=False
            ) as unreadable:
                assert unreadable.status == 400
        assert logs == []
        with capture_logs() as logs:
            for path in ("/seats/broken", "/gone", "/seats/task", "/seats/live"):
                async with session.get(url + path, ssl=False) as response:
                    assert response.status == (200 if path[-4:] in ("task", "live") else 500), path
        failures = [each["event"] for each in logs if each["log_level"] == "error"]
        assert failures == ["a page failed", "a page failed", "the task of a page failed"]
        ended = sys.modules["seats"].ended
        assert ended == []
    assert ended == ["ended"]
    del sys.modules["seats"]
