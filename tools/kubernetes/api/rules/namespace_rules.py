"""Rules for namespaces: their finalizers, and the phase in their status."""

from __future__ import annotations

from collections.abc import Iterator

from berth.actors.scheduling.kube.names import qualified_name

from .fields import STANDARD_FINALIZERS, Document, invalid


def namespace(document: Document, before: Document | None) -> Iterator[str]:
    """Checks the finalizers that a namespace gets."""
    finalizers = (document.get("spec") or {}).get("finalizers") or ()
    if before is not None and finalizers == ((before.get("spec") or {}).get("finalizers") or ()):
        return
    for i, name in enumerate(finalizers):
        path = f"spec.finalizers[{i}]"
        yield from (invalid(path, name, why) for why in qualified_name(name))
        if "/" not in name and name not in STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(path, name, why)


def namespace_status(document: Document, _: Document) -> Iterator[str]:
    phase = (document.get("status") or {}).get("phase") or "Active"
    is_ending = "deletionTimestamp" in document["metadata"]
    expected, state = ("Terminating", "not empty") if is_ending else ("Active", "empty")
    if phase != expected:
        why = f"may only be '{expected}' if `deletionTimestamp` is {state}"
        yield invalid("status.Phase", phase, why)
