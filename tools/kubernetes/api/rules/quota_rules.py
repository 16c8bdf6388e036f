"""Rules for ResourceQuotas: their amounts and their scopes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from berth.actors.scheduling.kube.names import qualified_name
from berth.actors.scheduling.kube.quantity import nano_value

from .fields import (
    COMPUTE,
    COUNTED,
    IMMUTABLE,
    IN_QUOTAS,
    Document,
    invalid,
    required,
    resource_amount,
)

_STORAGE = "requests.storage"
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")
_OF_PODS = COMPUTE | {"pods"}
# The standard amounts that a quota with a scope may limit.
_SCOPES = {
    "Terminating": _OF_PODS,
    "NotTerminating": _OF_PODS,
    "BestEffort": frozenset(("pods",)),
    "NotBestEffort": _OF_PODS,
    "PriorityClass": _OF_PODS,
    "CrossNamespacePodAffinity": _OF_PODS,
    "VolumeAttributesClass": frozenset(("persistentvolumeclaims", _STORAGE)),
}
_WITH_VALUES = ("PriorityClass", "VolumeAttributesClass")
_CONFLICTING = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_OTHER_OPERATOR = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
    "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def quota(document: Document, before: Document | None) -> Iterator[str]:
    spec: Document = document.get("spec") or {}
    hard = spec.get("hard") or {}
    yield from _amounts("spec.hard", hard)
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            yield invalid("spec.scopes", scopes, "unsupported scope")
        yield from _amounts_beyond_scope("spec.scopes", scopes, scope, hard)
    yield from _conflicts("spec.scopes", scopes, scopes)
    if spec.get("scopeSelector") is not None:
        yield from _selector(spec["scopeSelector"], scopes, hard)
    if before is not None and set(scopes) != set((before.get("spec") or {}).get("scopes") or ()):
        yield invalid("spec.scopes", scopes, IMMUTABLE)


def quota_status(document: Document) -> list[str]:
    status = document.get("status") or {}
    return [
        problem
        for field in ("hard", "used")
        for problem in _amounts(f"status.{field}", status.get(field) or {})
    ]


def quota_warnings(document: Document) -> list[str]:
    """Returns a warning for each request that may exceed its limit."""
    hard = (document.get("spec") or {}).get("hard") or {}
    warnings = []
    for name in ("cpu", "memory", "storage", "ephemeral-storage"):
        bare = name in ("cpu", "memory") and f"requests.{name}" not in hard
        request, limit = name if bare else f"requests.{name}", f"limits.{name}"
        if (
            request in hard
            and limit in hard
            and nano_value(hard[request]) > nano_value(hard[limit])
        ):
            warnings.append(
                f"ResourceQuota {request} ({hard[request]}) should be less than "
                f"{limit} ({hard[limit]})"
            )
    return warnings


def _amounts(path: str, amounts: Mapping[str, Any]) -> Iterator[str]:
    for name, amount in amounts.items():
        at = f"{path}[{name}]"
        names = [invalid(at, name, message) for message in qualified_name(name)]
        if "/" not in name and not _is_standard(name):
            if not names and name != "storage":
                names.append(
                    invalid(at, name, "must be a standard resource type or fully qualified")
                )
            names.append(invalid(at, name, "must be a standard resource for quota"))
        yield from names
        yield from resource_amount(at, "pods" if name in COUNTED else name, amount)


def _is_standard(name: str) -> bool:
    return name in IN_QUOTAS or name.startswith(_HUGE_PAGES)


def _amounts_beyond_scope(path: str, value: Any, scope: str, hard: Mapping[str, Any]) -> list[str]:
    """Returns a problem for each standard amount that a quota with this scope cannot limit."""
    if scope not in _SCOPES:
        return []
    return [
        invalid(path, value, "unsupported scope applied to resource")
        for name in sorted(hard)
        if _is_standard(name) and name not in _SCOPES[scope]
    ]


def _conflicts(path: str, value: Any, scopes: list[str]) -> list[str]:
    return [
        invalid(path, value, "conflicting scopes")
        for pair in _CONFLICTING
        if set(pair) <= set(scopes)
    ]


def _selector(selector: Document, scopes: list[str], hard: Mapping[str, Any]) -> Iterator[str]:
    path = "spec.scopeSelector.matchExpressions"
    requirements = selector.get("matchExpressions") or ()
    for requirement in requirements:
        scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
        values = requirement.get("values") or []
        if scope not in _SCOPES:
            yield invalid(f"{path}.scopeName", scope, "unsupported scope")
        yield from _amounts_beyond_scope(path, selector, scope, hard)
        if scope in _SCOPES and scope not in _WITH_VALUES and operator != "Exists":
            yield invalid(f"{path}.operator", operator, _OTHER_OPERATOR)
        yield from _operator(path, operator, values)
    yield from _conflicts(path, scopes, [r.get("scopeName", "") for r in requirements])


def _operator(path: str, operator: str, values: list[str]) -> list[str]:
    if operator in ("In", "NotIn"):
        detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        return [] if values else [required(f"{path}.values", detail)]
    if operator in ("Exists", "DoesNotExist"):
        detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        return [invalid(f"{path}.values", values, detail)] if values else []
    return [invalid(f"{path}.operator", operator, "not a valid selector operator")]
