"""Rules for the fields that say where a pod may run: tolerations, affinity and topology spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from berth.actors.scheduling.kube.names import dns_label, dns_subdomain, label_value, qualified_name
from berth.actors.scheduling.kube.node_selector import integer

from .fields import (
    NOT_POSITIVE,
    Document,
    duplicate,
    forbidden,
    invalid,
    label_selector,
    one_of,
    required,
    selector_requirement,
    unsupported,
)

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TOLERATION_OPERATORS = ("Equal", "Exists", "Lt", "Gt")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = "must be in the range 1-100"


def placement(path: str, spec: Document) -> list[str]:
    problems: list[str] = []
    for i, toleration in enumerate(spec.get("tolerations") or ()):
        problems += _toleration(f"{path}.tolerations[{i}]", toleration)
    affinity = spec.get("affinity") or {}
    if affinity.get("nodeAffinity"):
        problems += _node_affinity(f"{path}.affinity.nodeAffinity", affinity["nodeAffinity"])
    for field in ("podAffinity", "podAntiAffinity"):
        if affinity.get(field):
            problems += _pod_affinity(f"{path}.affinity.{field}", affinity[field])
    if spec.get("topologySpreadConstraints"):
        problems += _spread(f"{path}.topologySpreadConstraints", spec["topologySpreadConstraints"])
    return problems


def _toleration(path: str, toleration: Document) -> list[str]:
    problems: list[str] = []
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    effect, value = toleration.get("effect") or "", toleration.get("value") or ""
    if key:
        problems += [invalid(f"{path}.key", key, message) for message in qualified_name(key)]
    elif operator != "Exists":
        detail = (
            "operator must be Exists when `key` is empty, "
            'which means "match all values and all keys"'
        )
        problems.append(invalid(f"{path}.operator", toleration.get("operator") or "", detail))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        problems.append(
            invalid(
                f"{path}.effect",
                effect,
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            )
        )
    match operator:
        case "Equal":
            if messages := label_value(value):
                problems.append(invalid(f"{path}.operator", value, ";".join(messages)))
        case "Exists":
            if value:
                problems.append(
                    invalid(
                        f"{path}.operator",
                        toleration,
                        "value must be empty when `operator` is 'Exists'",
                    )
                )
        case "Lt" | "Gt":
            if integer(value) is None:
                detail = "value must be a valid integer when `operator` is 'Lt' or 'Gt'"
                problems.append(invalid(f"{path}.value", value, detail))
        case _:
            problems.append(unsupported(f"{path}.operator", operator, TOLERATION_OPERATORS))
    return problems + (one_of(f"{path}.effect", effect, EFFECTS) if effect else [])


def taints(path: str, items: Sequence[Document]) -> list[str]:
    """Checks the taints of a node: each has an effect; a pair of key and effect occurs once."""
    problems: list[str] = []
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(items):
        place, key, effect = f"{path}[{i}]", taint.get("key") or "", taint.get("effect") or ""
        problems += [invalid(f"{place}.key", key, message) for message in qualified_name(key)]
        if messages := label_value(taint.get("value") or ""):
            problems.append(invalid(f"{place}.value", taint["value"], ";".join(messages)))
        problems += (
            one_of(f"{place}.effect", effect, EFFECTS) if effect else [required(f"{place}.effect")]
        )
        if (key, effect) in seen:
            problems.append(duplicate(place, taint, "taints must be unique by key and effect pair"))
        seen.add((key, effect))
    return problems


def node_selector(path: str, selector: Document) -> list[str]:
    if not selector.get("nodeSelectorTerms"):
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    problems: list[str] = []
    for i, term in enumerate(selector["nodeSelectorTerms"]):
        problems += _term(f"{path}.nodeSelectorTerms[{i}]", term, any_value=False)
    return problems


def _term(path: str, term: Document, *, any_value: bool) -> list[str]:
    problems: list[str] = []
    for i, requirement in enumerate(term.get("matchExpressions") or ()):
        place = f"{path}.matchExpressions[{i}]"
        problems += selector_requirement(place, requirement, ("Gt", "Lt"), any_value=any_value)
    for i, requirement in enumerate(term.get("matchFields") or ()):
        place, values = f"{path}.matchFields[{i}]", requirement.get("values") or ()
        if requirement.get("operator") not in ("In", "NotIn"):
            detail = "not a valid selector operator"
            problems.append(invalid(f"{place}.operator", requirement.get("operator") or "", detail))
        elif len(values) != 1:
            detail = (
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )
            problems.append(required(f"{place}.values", detail))
        if requirement.get("key") != "metadata.name":
            problems.append(
                invalid(
                    f"{place}.key", requirement.get("key") or "", "not a valid field selector key"
                )
            )
            continue
        for j, name in enumerate(values):
            problems += [
                invalid(f"{place}.values[{j}]", name, message) for message in dns_subdomain(name)
            ]
    return problems


def _node_affinity(path: str, affinity: Document) -> list[str]:
    problems: list[str] = []
    if affinity.get(_REQUIRED) is not None:
        problems += node_selector(f"{path}.{_REQUIRED}", affinity[_REQUIRED])
    for i, preferred in enumerate(affinity.get(_PREFERRED) or ()):
        place = f"{path}.{_PREFERRED}[{i}]"
        problems += _weight(place, preferred)
        problems += _term(f"{place}.preference", preferred.get("preference") or {}, any_value=True)
    return problems


def _weight(path: str, weighted: Document) -> list[str]:
    weight = weighted.get("weight") or 0
    return [] if 1 <= weight <= 100 else [invalid(f"{path}.weight", weight, _WEIGHT)]


def _pod_affinity(path: str, affinity: Document) -> list[str]:
    problems: list[str] = []
    for i, term in enumerate(affinity.get(_REQUIRED) or ()):
        problems += _pod_term(f"{path}.{_REQUIRED}[{i}]", term)
    for i, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        place = f"{path}.{_PREFERRED}[{i}]"
        problems += _weight(place, weighted)
        problems += _pod_term(f"{place}.podAffinityTerm", weighted.get("podAffinityTerm") or {})
    return problems


def _pod_term(path: str, term: Document) -> list[str]:
    problems = label_selector(f"{path}.labelSelector", term.get("labelSelector"))
    problems += label_selector(f"{path}.namespaceSelector", term.get("namespaceSelector"))
    for name in term.get("namespaces") or ():
        problems += [invalid(f"{path}.namespace", name, message) for message in dns_label(name)]
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        problems += _keys(f"{path}.{field}", term.get(field) or (), term.get("labelSelector"))
    key = term.get("topologyKey") or ""
    if not key:
        problems.append(required(f"{path}.topologyKey", "can not be empty"))
    return problems + [
        invalid(f"{path}.topologyKey", key, message) for message in qualified_name(key)
    ]


def _keys(path: str, keys: Sequence[str], selector: Document | None) -> list[str]:
    """Checks label keys whose values, taken from the pod, are added to a selector."""
    if keys and selector is None:
        return [forbidden(path, "must not be specified when labelSelector is not set")]
    problems: list[str] = []
    for i, key in enumerate(keys):
        problems += [invalid(f"{path}[{i}]", key, message) for message in qualified_name(key)]
    return problems


def _spread(path: str, constraints: Sequence[Document]) -> list[str]:
    problems: list[str] = []
    seen: set[tuple[Any, Any]] = set()
    for i, constraint in enumerate(constraints):
        place = f"{path}[{i}]"
        key, unsatisfiable = (
            constraint.get("topologyKey") or "",
            constraint.get("whenUnsatisfiable") or "",
        )
        if (skew := constraint.get("maxSkew") or 0) <= 0:
            problems.append(invalid(f"{place}.maxSkew", skew, NOT_POSITIVE))
        if not key:
            problems.append(required(f"{place}.topologyKey", "can not be empty"))
        problems += [
            invalid(f"{place}.topologyKey", key, m) for m in (qualified_name(key) if key else ())
        ]
        problems += one_of(
            f"{place}.whenUnsatisfiable", unsatisfiable, ("DoNotSchedule", "ScheduleAnyway")
        )
        if (key, unsatisfiable) in seen:
            pair = f"{{{key}, {unsatisfiable}}}"
            problems.append(duplicate(f"{place}.{{topologyKey, whenUnsatisfiable}}", pair))
        seen.add((key, unsatisfiable))
        if (domains := constraint.get("minDomains")) is not None:
            if domains <= 0:
                problems.append(invalid(f"{place}.minDomains", domains, NOT_POSITIVE))
            if unsatisfiable != "DoNotSchedule":
                detail = (
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, "
                    f"not {unsatisfiable}"
                )
                problems.append(invalid(f"{place}.minDomains", domains, detail))
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            problems += one_of(f"{place}.{field}", constraint.get(field), ("Honor", "Ignore"))
        problems += label_selector(f"{place}.labelSelector", constraint.get("labelSelector"))
        problems += _keys(
            f"{place}.matchLabelKeys",
            constraint.get("matchLabelKeys") or (),
            constraint.get("labelSelector"),
        )
    return problems
