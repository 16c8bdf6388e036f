"""Decides which objects an owner controls. Mirrors Kubernetes' controller reference manager.

An object that matches the selector and has no controller is adopted; one that no longer matches is
released.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .documents import Document, controller_of, deleting, labels_of, owners_of, reference_to, uid_of
from .writes import Write, patch


def selects(selector: Document | None, labels: Mapping[str, str]) -> bool:
    """True if the selector matches these labels: None matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(
        _holds(requirement, labels) for requirement in selector.get("matchExpressions") or ()
    )


def _holds(requirement: Document, labels: Mapping[str, str]) -> bool:
    have = labels.get(requirement["key"])
    match requirement["operator"]:
        case "In":
            return have in (requirement.get("values") or ())
        case "NotIn":
            return have not in (requirement.get("values") or ())
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
        case _:
            return False


def selector_of(owner: Document) -> Document | None:
    """The owner's selector as a label selector.

    A ReplicationController's is a map of labels, by default those of its template. A Job without a
    selector selects by its uid.
    """
    given: Document | None = owner["spec"].get("selector")
    if owner["kind"] == "ReplicationController":
        template = owner["spec"].get("template") or {}
        return {"matchLabels": given or (template.get("metadata") or {}).get("labels") or {}}
    if owner["kind"] == "Job" and given is None:
        return {"matchLabels": {"batch.kubernetes.io/controller-uid": uid_of(owner)}}
    return given


def claim(owner: Document, candidates: Iterable[Document]) -> tuple[list[Document], list[Write]]:
    """The candidates that the owner controls, and the writes that adopt and release."""
    selector, uid = selector_of(owner), uid_of(owner)
    mine: list[Document] = []
    writes: list[Write] = []
    for candidate in candidates:
        controller = controller_of(candidate)
        matches = selects(selector, labels_of(candidate))
        if controller is not None and controller["uid"] == uid:
            if matches or deleting(owner):
                mine.append(candidate)
            else:
                kept = [reference for reference in owners_of(candidate) if reference["uid"] != uid]
                writes.append(
                    patch(candidate, {"metadata": {"ownerReferences": kept}}, guarded=True)
                )
        elif controller is None and matches and not deleting(owner) and not deleting(candidate):
            references = [*owners_of(candidate), reference_to(owner)]
            writes.append(
                patch(candidate, {"metadata": {"ownerReferences": references}}, guarded=True)
            )
            mine.append(candidate)
    return mine, writes
