"""The decisions of an API server, for the tests of its rooms."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.stores import fresh_store


@pytest.fixture
def api() -> Api:
    made = Api(fresh_store())
    made.seed()
    return made
