"""What plugins are given where no decision may write anything."""

from __future__ import annotations

from berth.actors.binding.state import PodsInBinding
from berth.actors.scheduling.framework.status import Status
from berth.config.feature_gates import DEFAULTS


class _Api:
    async def bind(self, namespace: str, name: str, uid: str, node: str) -> Status:
        raise AssertionError(f"{namespace}/{name} bound to {node} by a decision")


class NoApi:
    """A handle whose every write is a failure of the test."""

    feature_gates = DEFAULTS

    def __init__(self) -> None:
        self.api = _Api()
        self.waiting = PodsInBinding()


class Nowhere:
    """A reply that nobody waits for."""

    def set(self, value: object) -> None:
        raise AssertionError(value)
