"""The container that a request for a stream means, and the refusals of one that is not there.

The messages are those of the API server and the kubelet.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from berth.actors.scheduling.kube.times import seconds_of

from ...api.types.api_documents import Document, RefusedError

_FIELDS = (
    ("initContainers", "initContainerStatuses"),
    ("containers", "containerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
)
_NOT_PULLED = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


class ContainerRun(msgspec.Struct, frozen=True):
    """One run of a container, in seconds since 1970; `ended` is None while it runs."""

    started: float
    ended: float | None = None


def container_of(pod: Document, name: str) -> Document:
    """Returns the spec of the container with a name, or of the only one for "".

    Raises RefusedError with 400.
    """
    containers = list(_containers(pod))
    pod_name = pod["metadata"]["name"]
    if not name:
        mains: list[Document] = pod["spec"]["containers"]
        if len(mains) == 1:
            return mains[0]
        names = " ".join(container["name"] for container in containers)
        message = f"a container name must be specified for pod {pod_name}"
        raise _bad(f"{message}, choose one of: [{names}]")
    for container in containers:
        if container["name"] == name:
            return container
    raise _bad(f"container {name} is not valid for pod {pod_name}")


def check_host(pod: Document) -> None:
    """Raises RefusedError with 400 if a pod has no node yet."""
    if not pod["spec"].get("nodeName"):
        raise _bad(f"pod {pod['metadata']['name']} does not have a host assigned")


def is_running(pod: Document, name: str) -> bool:
    return "running" in _state(_status(pod, name))


def run_of_log(pod: Document, name: str, *, previous: bool) -> ContainerRun:
    """Returns the run of a container whose log a request asks for. Raises RefusedError with 400 if
    there was none yet.
    """
    which = f'container "{name}" in pod "{pod["metadata"]["name"]}"'
    status = _status(pod, name)
    if not status:
        raise _bad(f"{which} is not available")
    state, last = _state(status), _present(status.get("lastState")).get("terminated")
    if previous:
        if not last or not last.get("containerID"):
            raise _bad(f"previous terminated {which} not found")
        return _ended(last)
    if "running" in state:
        return ContainerRun(_seconds(state["running"].get("startedAt")))
    # A container whose next run did not start has no log of its own, but one of the run before.
    for ended in (state.get("terminated"), last):
        if ended and ended.get("containerID"):
            return _ended(ended)
    if "terminated" in state or last is not None:
        raise _bad(f"{which} is terminated")
    reason = (state.get("waiting") or {}).get("reason", "")
    if not reason:
        raise _bad(f"{which} is waiting to start - no logs yet")
    raise _bad(f"{which} is waiting to start: {_NOT_PULLED.get(reason, reason)}")


def _containers(pod: Document) -> Iterator[Document]:
    for field, _ in _FIELDS:
        yield from pod["spec"].get(field) or ()


def _status(pod: Document, name: str) -> Document:
    status = pod.get("status") or {}
    for _, field in _FIELDS:
        for each in status.get(field) or ():
            if each.get("name") == name:
                return dict(each)
    return {}


def _state(status: Document) -> Document:
    return _present(status.get("state"))


def _present(state: Document | None) -> Document:
    return {sort: value for sort, value in (state or {}).items() if value is not None}


def _ended(terminated: Document) -> ContainerRun:
    return ContainerRun(
        _seconds(terminated.get("startedAt")), _seconds(terminated.get("finishedAt"))
    )


def _seconds(text: str | None) -> float:
    return seconds_of(text) if text else 0.0


def _bad(message: str) -> RefusedError:
    return RefusedError(400, "BadRequest", message)
