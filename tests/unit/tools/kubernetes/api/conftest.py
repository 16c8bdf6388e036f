"""The decisions of an API server, for the tests of its rooms."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.writes.registry import Api


@pytest.fixture
def api() -> Api:
    made = Api(Store())
    made.seed()
    return made
