"""Requests are answered as by kube-apiserver, whose answers are recorded, but for the differences
that are kept: those stand with their reasons in data/kept_differences.yaml.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from fnmatch import fnmatchcase
from functools import cache
from http.client import HTTPConnection
from urllib.parse import urlsplit

import msgspec
import pytest
import yaml

from berth.tools.cluster.apiserver.app import serve
from berth.tools.kubernetes.api.types.releases import RELEASES
from tests.golden.api_requests import KEPT, Player, answer_differences, answers, stories
from tests.kit.stores import fresh_store

SECONDS = 3.0
NAMESPACE = "story-0a1b2c3d"
QUICK = ("objects: pods", "forms: kinds and names", "writes: merge patches")
Difference = tuple[str, str, str]  # the line of the request, the place in the answer, what differs


class Kept(msgspec.Struct, frozen=True):
    """Differences that are kept.

    `of` is a pattern of "STORY NUMBER: LINE", `at` one of the place, `why` the reason.
    """

    of: str
    at: str
    why: str

    def covers(self, difference: Difference) -> bool:
        line, at, _ = difference
        return fnmatchcase(line, self.of) and fnmatchcase(at, self.at)


@cache
def kept() -> list[Kept]:
    return msgspec.convert(yaml.safe_load(KEPT.read_text()) or [], list[Kept])


def differences_of(name: str, port: int) -> Iterator[Difference]:
    with closing(HTTPConnection("127.0.0.1", port, timeout=SECONDS)) as connection:
        player = Player(connection, NAMESPACE)
        player.prepare()
        asked = zip(stories()[name], answers()[name], strict=True)
        for number, (request, theirs) in enumerate(asked, 1):
            for at, how in answer_differences(player.play(request), theirs):
                yield f"{name} {number}: {request.line}", at, how


async def differing(name: str) -> list[Difference]:
    store = fresh_store()
    store.release = RELEASES["1.36"]
    async with serve(store=store) as url:
        port = urlsplit(url).port or 0
        return await asyncio.to_thread(lambda: list(differences_of(name, port)))


def story_marks() -> list[object]:
    slow = pytest.mark.full("recorded answers of kube-apiserver")
    return [name if name in QUICK else pytest.param(name, marks=slow) for name in stories()]


@pytest.mark.parametrize("name", story_marks())
async def test_requests_are_answered_as_by_kube_apiserver(name: str) -> None:
    found = await differing(name)
    more = [each for each in found if not any(k.covers(each) for k in kept())]
    assert not more, "\n" + "\n".join(f"{line}\n    {at}: {how}" for line, at, how in more)


@pytest.mark.full("recorded answers of kube-apiserver")
async def test_each_kept_difference_is_there() -> None:
    found = [each for name in stories() for each in await differing(name)]
    idle = [each for each in kept() if not any(each.covers(one) for one in found)]
    assert not idle, "\n".join(f"{each.of}: {each.at} differs no more" for each in idle)
