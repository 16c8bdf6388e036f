"""The end of a container whose own script has ended, for a client that was attached to it.

An attached client hears the container's own process. Once that has exited, so has the container; a
kubelet would see it, and hollow ones are told in the pod's status. A container that is restarted in
any case runs on: the next client hears the script from its beginning.
"""

from __future__ import annotations

from contextlib import suppress

from ....kubernetes.api.requests.media_types import STRATEGIC
from ....kubernetes.api.store import Store
from ....kubernetes.api.types.api_documents import Document, RefusedError
from ....kubernetes.api.types.resources import BY_KIND
from ....kubernetes.api.writes.registry import Api
from ....kubernetes.kubelet.containers import Backoffs, Exit, after_exits

POD = BY_KIND["v1", "Pod"]


def end_container(store: Store, pod: Document, container: str, code: int) -> None:
    """Ends a container with an exit code, unless its pod restarts it always or is gone."""
    metadata = pod["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    current = store.find(POD, namespace, name)
    if current is None or current["metadata"]["uid"] != metadata["uid"]:
        return
    if restarts_always(current):
        return
    how = Exit(code, "Error") if code else Exit()
    now = store.outside.wall().timestamp()
    exits = after_exits(
        current, now, lambda each: how if each["name"] == container else None, Backoffs()
    )
    with suppress(RefusedError):  # the pod may have changed in a way that allows no end
        Api(store).patch(POD, namespace, name, {"status": exits.status}, STRATEGIC, "status")


def restarts_always(pod: Document) -> bool:
    return (pod["spec"].get("restartPolicy") or "Always") == "Always"
