"""The settings of the demo's scheduler."""

from __future__ import annotations

import pytest

from berth.config.feature_gates import defaults_of
from berth.config.versions import VERSIONS
from berth.tools.testing.demo.scheduler import Start
from berth.tools.testing.demo.scheduler_process import options_of


@pytest.mark.parametrize("minor", [36, 37])
def test_its_pages_tell_the_version_that_it_decides_as(minor: int) -> None:
    gates = dict(defaults_of(VERSIONS[minor]))
    options = options_of(Start("http://127.0.0.1:1", {}, minor, gates, 0))
    assert options.version.text == f"1.{minor}"
    assert options.feature_gates == gates
