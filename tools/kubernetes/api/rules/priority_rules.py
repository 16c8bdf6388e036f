"""Rules for priority classes."""

from __future__ import annotations

from collections.abc import Iterator

from .fields import Document, forbidden, invalid

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def priority_class(document: Document, before: Document | None) -> Iterator[str]:
    name, value = (document.get("metadata") or {}).get("name") or "", document.get("value") or 0
    if name.startswith("system-"):
        if SYSTEM_CLASSES.get(name) != value:
            detail = (
                "priority class names with 'system-' prefix are reserved for system use only. "
                "error: "
            )
            mismatch = (
                f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
                if name in SYSTEM_CLASSES
                else ""
            )
            detail += mismatch or f"{name} is not a known system priority class"
            yield forbidden("metadata.name", detail)
    elif value > HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        yield forbidden("value", detail)
    if before is not None and value != (before.get("value") or 0):
        yield forbidden("value", "may not be changed in an update.")


def group_policy(path: str, value: Document) -> Iterator[str]:
    """Checks that the pods of a group are scheduled in one way."""
    given = [f"`{name}`" for name in ("basic", "gang") if value.get(name) is not None]
    if not given:
        yield invalid(path, None, "must specify one of: `basic`, `gang`")
    elif len(given) > 1:
        shown = f"{{{', '.join(given)}}}"
        yield f"{path}: Invalid value: {shown}: must specify exactly one of: `basic`, `gang`"
