"""DefaultBinder: binds a pod to its node through the API server's binding subresource."""

from __future__ import annotations

from berth.plugin import SUCCESS, BindPlugin, CycleState, Pod, PodInfo, Status


class DefaultBinder(BindPlugin):
    name = "DefaultBinder"

    async def bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        metadata, api = info.pod.metadata, self.handle.api
        status = await api.bind(metadata.namespace, metadata.name, metadata.uid, node)
        if status.ok:
            return status
        # If only the answer was lost, the pod is bound, and its reservations must not be undone.
        current = await api.get(Pod, metadata.name, metadata.namespace)
        if isinstance(current, Status) or current.metadata.uid != metadata.uid:
            return status
        return SUCCESS if current.spec.node_name == node else status
