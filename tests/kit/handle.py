"""Handles for plugins in tests whose decisions must write nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random

from berth.actors.client.objects import ApiObjects
from berth.actors.scheduling.framework.status import Status
from berth.config.feature_gates import DEFAULTS
from berth.tools.answers.explain.plugin_handle import ReadOnlyHandle
from tests.kit.clock import VirtualClock
from tests.kit.fake_calls import FakeCalls


class _Api(ApiObjects):
    async def bind(self, namespace: str, name: str, uid: str, node: str) -> Status:
        raise AssertionError(f"{namespace}/{name} bound to {node} by a decision")


class NoApi(ReadOnlyHandle):
    """A handle that fails the test on every write. `seconds` is the time that its clock shows."""

    seconds = 0.0

    def now(self) -> float:
        return self.seconds

    @staticmethod
    def wall() -> datetime:
        """Returns a time later than any in the recorded decisions."""
        return datetime(2100, 1, 1, tzinfo=UTC)

    def __init__(self, gates: Mapping[str, bool] = DEFAULTS) -> None:
        super().__init__(gates)
        self.api = _Api(FakeCalls(), VirtualClock(), Random(1))


class Nowhere:
    """A reply for which no task waits."""

    def set(self, value: object) -> None:
        raise AssertionError(value)
