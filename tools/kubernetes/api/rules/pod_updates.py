"""Rules for updates of a pod's spec: few fields may change, a few more while the pod has scheduling
gates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..types.schema import TYPES, canonical
from .fields import Document, forbidden, invalid

MIRROR = "kubernetes.io/config.mirror"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_UPDATABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        (
            "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously "
            "negative)"
        ),
    )
)
_ADDITIONS = "only additions are allowed (no mutations or deletions)"


def pod_update(after: Document, before: Document) -> Iterator[str]:
    """Returns the problems of an update; both arguments are specs with their defaults."""
    if after == before:
        return
    new, old = canonical(TYPES["PodSpec"], after), canonical(TYPES["PodSpec"], before)
    for field in ("containers", "initContainers"):
        if len(new.get(field, ())) != len(old.get(field, ())):
            yield forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    yield from _deadline(
        new.pop("activeDeadlineSeconds", None), old.pop("activeDeadlineSeconds", None)
    )
    yield from _tolerations(new.pop("tolerations", []), old.pop("tolerations", []))
    gated = bool(old.get("schedulingGates"))
    yield from _gates(new.pop("schedulingGates", []), old.pop("schedulingGates", []))
    for spec in (new, old):
        for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
            container.pop("image", None)
    if (
        old.get("terminationGracePeriodSeconds", 0) < 0
        and new.get("terminationGracePeriodSeconds") == 1
    ):
        del old["terminationGracePeriodSeconds"], new["terminationGracePeriodSeconds"]
    if gated:
        yield from _stricter_placement(new, old)
    if new != old:
        yield forbidden("spec", f"pod updates may not change fields other than {_UPDATABLE}")


def mirror_annotation(after: Document, before: Document | None) -> list[str]:
    """Checks the annotation of mirror pods: a pod with it must name its node, and no update may
    change it.
    """
    new = (after["metadata"].get("annotations") or {}).get(MIRROR)
    path = f"metadata.annotations[{MIRROR}]"
    if before is not None:
        old = (before["metadata"].get("annotations") or {}).get(MIRROR)
        if old != new:
            verb = "add" if old is None else "remove or update"
            return [forbidden(path, f"may not {verb} mirror pod annotation")]
    if new is not None and not (after.get("spec") or {}).get("nodeName"):
        return [invalid(path, new, "must set spec.nodeName if mirror pod annotation is set")]
    return []


def _deadline(after: int | None, before: int | None) -> list[str]:
    path = "spec.activeDeadlineSeconds"
    if before is None or (after is not None and after <= before):
        return []
    if after is None:
        return [invalid(path, None, "must not update from a positive integer to nil value")]
    return [invalid(path, after, "must be less than or equal to previous value")]


def _tolerations(after: list[Document], before: list[Document]) -> list[str]:
    """Checks that every earlier toleration stays; only its tolerationSeconds may change."""
    have = [_without_seconds(toleration) for toleration in after]
    if all(_without_seconds(toleration) in have for toleration in before):
        return []
    return [
        forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        )
    ]


def _without_seconds(toleration: Document) -> Document:
    return {field: value for field, value in toleration.items() if field != "tolerationSeconds"}


def _gates(after: list[Document], before: list[Document]) -> list[str]:
    had = {gate.get("name") for gate in before}
    return [
        forbidden(
            f"spec.schedulingGates[{i}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'",
        )
        for i, gate in enumerate(after)
        if gate.get("name") not in had
    ]


def _stricter_placement(new: Document, old: Document) -> list[str]:
    """Checks that an update of a gated pod only narrows the set of its nodes.

    Removes the checked fields from both specs.
    """
    problems: list[str] = []
    after, before = new.pop("nodeSelector", {}), old.pop("nodeSelector", {})
    if any(after.get(key) != value for key, value in before.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        problems.append(invalid("spec.nodeSelector", after, detail))
    new_terms = _pop_node_affinity(new).get(_REQUIRED, {}).get("nodeSelectorTerms", [])
    old_terms = _pop_node_affinity(old).get(_REQUIRED, {}).get("nodeSelectorTerms", [])
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if old_terms and len(new_terms) != len(old_terms):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [*problems, invalid(path, new_terms, detail)]
    for i, (now, was) in enumerate(zip(new_terms, old_terms, strict=False)):
        # a term without requirements matches nothing, so adding one would widen it
        if (not was and now) or any(
            requirement not in now.get(field, ())
            for field in ("matchExpressions", "matchFields")
            for requirement in was.get(field, ())
        ):
            problems.append(invalid(f"{path}[{i}]", now, _ADDITIONS))
    return problems


def _pop_node_affinity(spec: Document) -> dict[str, Any]:
    affinity = spec.get("affinity", {})
    node_affinity: dict[str, Any] = affinity.pop("nodeAffinity", {})
    if not affinity:
        spec.pop("affinity", None)
    return node_affinity
