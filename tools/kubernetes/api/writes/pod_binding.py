"""The subresource binding, which gives a pod its node."""

from __future__ import annotations

from ..requests.request_bodies import Binding, NamedObject, converted
from ..types.api_documents import Document, RefusedError
from .pod_conditions import with_condition
from .refusals import other_uid


def bound_pod(pod: Document, binding: Document, now: str) -> Document:
    """Returns a pod after its binding.

    Raises RefusedError: 422 if the binding names no node, 409 if the pod is bound, deleting or
    gated, or has another uid.
    """
    name = pod["metadata"]["name"]
    request = converted(binding, Binding)
    node, uid = (request.target or NamedObject()).name, (request.metadata or NamedObject()).uid
    problem = ""
    if not node:
        raise RefusedError(
            422, "Invalid", f'Binding "{name}" is invalid: target.name: Required value'
        )
    if uid and uid != pod["metadata"]["uid"]:
        problem = other_uid(uid, pod)
    elif "deletionTimestamp" in pod["metadata"]:
        problem = f"pod {name} is being deleted, cannot be assigned to a host"
    elif pod["spec"].get("nodeName"):
        problem = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    elif pod["spec"].get("schedulingGates"):
        problem = f"pod {name} has non-empty .spec.schedulingGates"
    if problem:
        message = f'Operation cannot be fulfilled on pods/binding "{name}": {problem}'
        raise RefusedError(409, "Conflict", message)
    status = with_condition(pod["status"], "PodScheduled", "True", now)
    status.pop("nominatedNodeName", None)
    return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status}
