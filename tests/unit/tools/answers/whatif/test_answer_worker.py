"""What the process that answers what-ifs says when it has no memory left."""

from __future__ import annotations

import os
import resource
from http import HTTPStatus
from io import BytesIO

import msgspec
import pytest

from berth.tools.answers.whatif import answer_worker
from berth.tools.answers.whatif.question import LENGTH, Answered, Asked, framed


def test_a_worker_without_memory_says_so_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[tuple[int, int]] = []

    def taken(*_: object) -> None:
        raise MemoryError

    def end(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(answer_worker.Replica, "take", taken)
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: limits.append(limit))
    monkeypatch.setattr(os, "_exit", end)
    out = BytesIO()
    with pytest.raises(SystemExit, match=r"^0$"):
        answer_worker.main(BytesIO(framed(Asked(b"{}"))), out)
    told = msgspec.json.decode(out.getvalue()[LENGTH:], type=Answered)
    assert (told.status, told.last) == (HTTPStatus.SERVICE_UNAVAILABLE, True)
    assert b"the answer takes too much memory" in bytes(told.body)
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    assert limits == [(most, most)]
