"""The schedulers of these tests run as the shipped service account, with its rights."""

from __future__ import annotations

import pytest

from berth.actors import system
from berth.tools.apiserver.app import Server
from tests.kit.rights import as_service_account, authorized


@pytest.fixture(autouse=True)
def service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "remote", as_service_account)
    monkeypatch.setattr(Server, "answer", authorized)
