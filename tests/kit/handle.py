"""Handles for plugins in tests whose decisions must write nothing."""

from __future__ import annotations

from berth.actors.binding.state import PodsInBinding
from berth.actors.scheduling.framework.status import Status
from berth.config.feature_gates import DEFAULTS


class _Api:
    async def bind(self, namespace: str, name: str, uid: str, node: str) -> Status:
        raise AssertionError(f"{namespace}/{name} bound to {node} by a decision")


class NoApi:
    """A handle that fails the test on every write."""

    feature_gates = DEFAULTS

    def __init__(self) -> None:
        self.api = _Api()
        self.waiting = PodsInBinding()


class Nowhere:
    """A reply for which no task waits."""

    def set(self, value: object) -> None:
        raise AssertionError(value)
