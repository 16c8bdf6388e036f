"""DefaultBinder: binds the pod to the chosen node through the API server's binding subresource."""

from __future__ import annotations

from berth.actors.scheduling.framework.cycle_state import CycleState
from berth.actors.scheduling.framework.interface import BindPlugin
from berth.actors.scheduling.framework.status import Status
from berth.actors.scheduling.model.pod_info import PodInfo


class DefaultBinder(BindPlugin):
    name = "DefaultBinder"

    async def bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        metadata = info.pod.metadata
        return await self.handle.api.bind(metadata.namespace, metadata.name, metadata.uid, node)
