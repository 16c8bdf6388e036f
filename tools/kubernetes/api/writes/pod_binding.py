"""The subresource binding, which gives a pod its node."""

from __future__ import annotations

from ..requests.request_bodies import Binding, NamedObject, converted
from ..rules.fields import required
from ..rules.validation import details_of_kind, message_of_kind
from ..types.api_documents import Document, RefusedError
from .pod_conditions import with_condition
from .refusals import other_uid


def check_bound_name(name: str, document: Document) -> None:
    """Raises RefusedError with 400 if a binding names another pod than its path, or none."""
    if bound_name(document) != name:
        why = "name in URL does not match name in Binding object"
        raise RefusedError(400, "BadRequest", why)


def bound_name(document: Document) -> str:
    """Returns the pod that a binding names. Raises RefusedError with 400 if it cannot be read."""
    return (converted(document, Binding).metadata or NamedObject()).name or ""


def read_binding(name: str, document: Document) -> Binding:
    """Returns the binding of a pod. Raises RefusedError: 400 if it cannot be read, 422 if it names
    no node.
    """
    binding = converted(document, Binding)
    if not (binding.target or NamedObject()).name:
        told = "", "Binding", name, [required("target.name")]
        raise RefusedError(422, "Invalid", message_of_kind(*told), details_of_kind(*told))
    return binding


def bound_pod(pod: Document, binding: Binding, now: str) -> Document:
    """Returns a pod after its binding.

    Raises RefusedError with 409 if the pod is bound, deleting or gated, or has another uid.
    """
    name = pod["metadata"]["name"]
    node, uid = (binding.target or NamedObject()).name, (binding.metadata or NamedObject()).uid
    problem = ""
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
        details = {"name": name, "kind": "pods/binding"}
        raise RefusedError(409, "Conflict", message, details)
    status = with_condition(pod["status"], "PodScheduled", "True", now)
    status.pop("nominatedNodeName", None)
    return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status}
