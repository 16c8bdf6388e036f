"""Where the recorded decisions are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.scenarios import DATA


@pytest.fixture(scope="session")
def recordings(pytestconfig: pytest.Config) -> Path:
    return Path(pytestconfig.getoption("golden") or DATA)
