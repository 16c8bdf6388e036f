"""DefaultBinder: binds a pod to its node through the API server's binding subresource."""

from __future__ import annotations

from berth.plugin import BindPlugin, CycleState, PodInfo, Status


class DefaultBinder(BindPlugin):
    name = "DefaultBinder"

    async def bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        metadata = info.pod.metadata
        return await self.handle.api.bind(metadata.namespace, metadata.name, metadata.uid, node)
