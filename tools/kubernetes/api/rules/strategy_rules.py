"""Rules for the update strategies of Deployments, DaemonSets and StatefulSets."""

from __future__ import annotations

from typing import Any

from .fields import Document, forbidden, go_struct, invalid, required, unsupported
from .percentages import int_or_percent, number_of

_TYPES = {
    "Deployment": ("Recreate", "RollingUpdate"),
    "DaemonSet": ("RollingUpdate", "OnDelete"),
    "StatefulSet": ("RollingUpdate", "OnDelete"),
}


_DEFAULTS: dict[str, dict[str, Any]] = {
    "Deployment": {"maxSurge": "25%", "maxUnavailable": "25%"},
    "DaemonSet": {"maxSurge": 0, "maxUnavailable": 1},
}


def strategy(kind: str, spec: Document) -> list[str]:
    """Checks the update strategy of a workload of this kind. Absent fields get defaults."""
    if kind not in _TYPES:
        return []
    place = "spec.strategy" if kind == "Deployment" else "spec.updateStrategy"
    written = spec.get(place.removeprefix("spec.")) or {}
    type_, rolling = written.get("type") or "RollingUpdate", written.get("rollingUpdate")
    if type_ not in _TYPES[kind]:
        shown = go_struct(written, ("Type", "RollingUpdate"))
        if kind == "StatefulSet":
            return [invalid(place, shown, "must be 'RollingUpdate' or 'OnDelete'")]
        return [unsupported(place, shown, _TYPES[kind])]
    if type_ == "Recreate" and rolling is not None:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden(f"{place}.rollingUpdate", detail)]
    if kind == "StatefulSet" and type_ == "OnDelete" and rolling is not None:
        shown = go_struct(rolling, ("Partition", "MaxUnavailable"))
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        return [invalid(f"{place}.rollingUpdate", shown, detail)]
    if kind == "StatefulSet" or type_ != "RollingUpdate" or rolling is None:
        return []
    return _rolling(kind, f"{place}.rollingUpdate", rolling)


def _rolling(kind: str, place: str, rolling: Document) -> list[str]:
    surge, unavailable = (
        default if rolling.get(field) is None else rolling[field]
        for field, default in _DEFAULTS[kind].items()
    )
    at_surge, at_unavailable = f"{place}.maxSurge", f"{place}.maxUnavailable"
    surges, lacks = _is_nonzero(surge), _is_nonzero(unavailable)
    if kind == "Deployment" and not surges and not lacks:
        return [invalid(at_unavailable, unavailable, "may not be 0 when `maxSurge` is 0")]
    if kind == "DaemonSet" and surges and lacks:
        return [invalid(at_surge, surge, "may not be set when maxUnavailable is non-zero")]
    if kind == "DaemonSet" and not surges and not lacks:
        return [required(at_unavailable, "cannot be 0 when maxSurge is 0")]
    return []


def _is_nonzero(value: Any) -> bool:
    """True for a number or percentage other than 0. Other text counts as 0."""
    if isinstance(value, str):
        return not int_or_percent("", value, most=None) and number_of(value) != 0
    return bool(value)
