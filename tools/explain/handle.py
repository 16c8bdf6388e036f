"""The handle for plugins where nothing may be written."""

from __future__ import annotations

from berth.actors.binding.state import PodsInBinding
from berth.actors.scheduling.framework.status import Status, error
from berth.config.feature_gates import DEFAULTS


class _ReadOnly:
    async def bind(self, namespace: str, name: str, uid: str, node: str) -> Status:
        return error("nothing is bound here")


class ReadOnlyHandle:
    feature_gates = DEFAULTS

    def __init__(self) -> None:
        self.api = _ReadOnly()
        self.waiting = PodsInBinding()
