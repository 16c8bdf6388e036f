"""The statuses of the parts of a control plane, as they are asked for: all are healthy.

Kubernetes asks kube-scheduler, kube-controller-manager and etcd at their own addresses. Here the
store is its own etcd, and a part that does not run is not noticed.
"""

from __future__ import annotations

from ..types.api_documents import Document, RefusedError, StoredObject
from .list_options import is_on
from .list_pages import ListPage, page_of
from .request import HttpRequest
from .request_targets import RequestTarget

_PARTS = ("controller-manager", "etcd-0", "scheduler")


def component_answer(
    request: HttpRequest, target: RequestTarget, revision: int
) -> StoredObject | ListPage:
    """Answers a GET at a revision of the store. Raises RefusedError with 404 or 405."""
    if request.method != "GET" or is_on(request.query, "watch"):
        message = "the server does not allow this method on the requested resource"
        raise RefusedError(405, "MethodNotAllowed", message)
    if not target.name:
        statuses = [StoredObject(_status(name), 0) for name in _PARTS]
        return page_of(statuses, target.kind, "", request.query, revision)
    if target.name not in _PARTS:
        message = f'component "{target.name}" not found'
        raise RefusedError(404, "NotFound", message)
    return StoredObject(_status(target.name), 0)


def _status(name: str) -> Document:
    condition = {"type": "Healthy", "status": "True", "message": "ok"}
    return {
        "apiVersion": "v1",
        "kind": "ComponentStatus",
        "metadata": {"name": name},
        "conditions": [condition],
    }
