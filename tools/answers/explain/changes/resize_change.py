"""Suggestions to take back a deferred resize of another pod, or wait until a resize is done."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ..deferred_resizes import INFEASIBLE, PENDING, is_deferred
from .change import ProposedChange, Who
from .edit import Document, Patch, patch_of, put
from .kind_of_change import Way
from .world import World

MOST_PODS = 20
_LISTS = (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses"))


def changes(world: World) -> Iterator[ProposedChange]:
    possible = list(islice(_ends_of_resizes(world), MOST_PODS))
    with world.changed([edit for change in possible for edit in change.edits]):
        helps = bool(possible) and world.fits()
    yield from possible if helps else ()


def _ends_of_resizes(world: World) -> Iterator[ProposedChange]:
    """Yields the end of each resize of a pod with a node: a deferred one is taken back, an accepted
    one is completed, and a refused one is left out.
    """
    for node in world.node_infos():
        for key, info in node.pods.items():
            if not info.pod.status.container_statuses and info.pod.status.resources is None:
                continue
            namespace, _, name = key.partition("/")
            pod = world.document("Pod", name, namespace)
            if pod is None:
                continue
            if is_deferred(info.pod):
                patch, sentence = _withdrawn_resize(pod), f"Take back the deferred resize of {key}"
                change = ProposedChange("resize", Who.ADMIN, 0.2, sentence, (patch_of(pod, patch),))
            elif not _is_refused(pod):
                patch, sentence = _completed_resize(pod), f"Wait until the resize of {key} is done"
                change = ProposedChange(
                    "resize", Who.NOBODY, 0.1, sentence, (patch_of(pod, patch),)
                )
            else:
                continue
            if patch:
                yield change


def _is_refused(pod: Document) -> bool:
    return any(
        (each.get("type"), each.get("reason")) == (PENDING, INFEASIBLE)
        for each in pod["status"].get("conditions") or ()
    )


def _withdrawn_resize(pod: Document) -> Patch:
    """Returns the patch that sets the requests back to what the node has allocated."""
    patch: Patch = []
    for path, requests, status in _parts_with_requests(pod):
        allocated = status.get("allocatedResources") or {}
        for name in requests.keys() & allocated.keys():
            if requests[name] != allocated[name]:
                patch += put(allocated[name], *path, "resources", "requests", name)
    return sorted(patch, key=lambda each: str(each["path"]))


def _completed_resize(pod: Document) -> Patch:
    """Returns the patch after which the status has the requests of the spec."""
    status = dict(pod["status"])
    for part, statuses in _LISTS:
        requests = {
            container["name"]: (container.get("resources") or {}).get("requests") or {}
            for container in pod["spec"].get(part) or ()
        }
        if statuses in status:
            status[statuses] = [
                _with_requests(of, requests.get(of["name"], {})) for of in status[statuses]
            ]
    if status.get("resources"):
        status = _with_requests(status, (pod["spec"].get("resources") or {}).get("requests") or {})
    return put(status, "status") if status != pod["status"] else []


def _with_requests(status: Document, requests: Document) -> Document:
    """Returns the status with these requests, if it has resources."""
    if not status.get("resources"):
        return status
    resources = {**status["resources"], "requests": requests}
    return {**status, "resources": resources, "allocatedResources": requests}


def _parts_with_requests(
    pod: Document,
) -> Iterator[tuple[tuple[str | int, ...], Document, Document]]:
    """Yields the parts of a pod with requests: the path to each, its requests and its status."""
    spec, status = pod["spec"], pod["status"]
    for part, statuses in _LISTS:
        by_name = {of["name"]: of for of in status.get(statuses) or ()}
        for number, container in enumerate(spec.get(part) or ()):
            requests = (container.get("resources") or {}).get("requests") or {}
            yield ("spec", part, number), requests, by_name.get(container["name"], {})
    yield ("spec",), (spec.get("resources") or {}).get("requests") or {}, status


WAY = Way(changes)
