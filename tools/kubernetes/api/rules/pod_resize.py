"""Rules for the resize of a pod in place: only its requests and limits of cpu and memory may
change.

Mirrors podResizeStrategy and ValidatePodResize. Resize policies are those of the pod's creation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..types.schema import TYPES, canonical
from .fields import Document, forbidden, invalid
from .pod_updates import MIRROR

RESIZABLE = ("cpu", "memory")
_LISTS = ("containers", "initContainers")
_ONLY = "only cpu and memory resources are mutable"


def with_resized_resources(after: Document, before: Document) -> Document:
    """Returns a pod with the resources and the resize policies of `after`, and otherwise unchanged.

    If containers are added, removed or renamed, `after` is returned, so that its check fails.
    """
    new, old = after["spec"], before["spec"]
    if any(_names(new, field) != _names(old, field) for field in _LISTS):
        return after
    spec = {field: value for field, value in old.items() if field != "resources"}
    if "resources" in new:
        spec["resources"] = new["resources"]
    for field in _LISTS:
        if old.get(field):
            pairs = zip(new[field], old[field], strict=True)
            spec[field] = [_with_resources(theirs, mine) for theirs, mine in pairs]
    metadata = {**before["metadata"]}
    for field in ("resourceVersion", "generation"):
        if field in after["metadata"]:
            metadata[field] = after["metadata"][field]
    return {**after, "metadata": metadata, "spec": spec}


def _with_resources(after: Document, before: Document) -> Document:
    kept = {f: v for f, v in before.items() if f not in ("resources", "resizePolicy")}
    return {**kept, **{f: after[f] for f in ("resources", "resizePolicy") if f in after}}


def _names(spec: Document, field: str) -> list[str]:
    return [container.get("name", "") for container in spec.get(field) or ()]


def pod_resize(after: Document, before: Document, qos: str) -> list[str]:
    """Returns the problems of a resize, besides the problems of the pod itself.

    Both pods have their defaults; `qos` is the class that the resized pod would have.
    """
    if MIRROR in (before["metadata"].get("annotations") or {}):
        return [forbidden("[]", "static pods cannot be resized")]
    new, old = after["spec"], before["spec"]
    if (old.get("os") or {}).get("name") == "windows":
        return [forbidden("[]", "windows pods cannot be resized")]
    problems: list[str] = []
    status = before.get("status") or {}
    if qos != status.get("qosClass", qos):
        detail = "Pod QOS Class may not change as a result of resizing"
        problems.append(invalid("spec", status["qosClass"], detail))
    if not _is_supported(status):
        problems.append(forbidden("spec", "Pod running on node without support for resize"))
    problems += _of_pod_itself(new.get("resources"), old.get("resources"))
    misplaced = _misplaced_requests(new, old)
    if misplaced:
        return problems + misplaced
    problems += _of_containers(new, old)
    if not problems and _immutable_spec(new) != _immutable_spec(old):
        problems.append(forbidden("spec", _ONLY))
    return problems


def _is_supported(status: Document) -> bool:
    """False if the node of a running pod does not report the resources of containers, and so cannot
    resize it.
    """
    for container in status.get("containerStatuses") or ():
        if (container.get("state") or {}).get("running") is not None:
            return container.get("resources") is not None
    return True


def _of_pod_itself(after: Document | None, before: Document | None) -> Iterator[str]:
    if not before and not after:
        return
    if before is not None and after is None:
        yield forbidden("spec.resources", "pod-level resources cannot be removed")
        return
    for field in ("requests", "limits"):
        if _removed_resources(after, before, field):
            detail = f"pod-level resource {field} cannot be removed"
            yield forbidden(f"spec.resources.{field}", detail)
    if _immutable_resources(after) != _immutable_resources(before):
        yield forbidden("spec", f"{_ONLY} at pod-level")


def _misplaced_requests(new: Document, old: Document) -> list[str]:
    problems = []
    for field in _LISTS:
        after, before = _names(new, field), _names(old, field)
        if len(after) != len(before):
            detail = f"{field} may not be added or removed on resize"
            problems.append(forbidden(f"spec.{field}", detail))
            continue
        detail = f"{field} may not be renamed or reordered on resize"
        problems += [
            forbidden(f"spec.{field}[{i}].name", detail)
            for i, pair in enumerate(zip(after, before, strict=True))
            if pair[0] != pair[1]
        ]
    return problems


def _of_containers(new: Document, old: Document) -> Iterator[str]:
    for field in reversed(_LISTS):
        pairs = zip(new.get(field) or (), old.get(field) or (), strict=True)
        for i, (after, before) in enumerate(pairs):
            for part in ("requests", "limits"):
                if _removed_resources(after.get("resources"), before.get("resources"), part):
                    path = f"spec.{field}[{i}].resources.{part}"
                    yield forbidden(path, f"resource {part} cannot be removed")
    for after, before in zip(new["containers"], old["containers"], strict=True):
        if _immutable_container(after) != _immutable_container(before):
            yield forbidden("spec", _ONLY)
    pairs = zip(new.get("initContainers") or (), old.get("initContainers") or (), strict=True)
    for i, (after, before) in enumerate(pairs):
        path = f"spec.initContainers[{i}]"
        if _immutable_container(after) != _immutable_container(before):
            detail = "only cpu and memory resources for init or sidecar containers are mutable"
            yield forbidden(path, detail)
        if (
            after.get("restartPolicy") != "Always"
            and _canonical(after) != _canonical(before)
            and any(
                policy.get("restartPolicy") == "RestartContainer"
                for policy in after.get("resizePolicy") or ()
            )
        ):
            detail = (
                "non-sidecar init containers with a resize policy of RestartContainer "
                "cannot be resized"
            )
            yield forbidden(path, detail)


def _removed_resources(after: Document | None, before: Document | None, field: str) -> bool:
    amounts: Mapping[str, object] = (before or {}).get(field) or {}
    return any(name not in ((after or {}).get(field) or {}) for name in amounts)


def _immutable_resources(resources: Document | None) -> Document:
    """Returns the parts of resources that a resize must not change."""
    fixed: Document = canonical(TYPES["ResourceRequirements"], resources or {})
    for field in ("requests", "limits"):
        kept = {n: a for n, a in fixed.pop(field, {}).items() if n not in RESIZABLE}
        if kept:
            fixed[field] = kept
    return fixed


def _immutable_container(container: Document) -> Document:
    return {**_canonical(container), "resources": _immutable_resources(container.get("resources"))}


def _canonical(container: Document) -> Document:
    form: Document = canonical(TYPES["Container"], container)
    return form


def _immutable_spec(spec: Document) -> Document:
    """Returns the parts of a spec that a resize must not change."""
    form: Document = canonical(TYPES["PodSpec"], spec)
    form.pop("resources", None)
    for field in _LISTS:
        form.pop(field, None)
    return form
