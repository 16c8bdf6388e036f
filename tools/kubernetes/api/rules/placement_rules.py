"""Rules for the fields that say where a pod may run: tolerations, affinity and topology spread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from berth.actors.scheduling.kube.names import dns_label, dns_subdomain, label_value, qualified_name
from berth.actors.scheduling.kube.node_selector import integer

from .fields import (
    Document,
    duplicate,
    forbidden,
    go_struct,
    invalid,
    one_of,
    required,
    selector_requirement,
    unsupported,
)

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def toleration(path: str, given: Document) -> Iterator[str]:
    """Checks that the key, operator, value, effect and seconds of a toleration fit each other."""
    key, operator = given.get("key") or "", given.get("operator") or "Equal"
    effect, value = given.get("effect") or "", given.get("value") or ""
    if not key and operator != "Exists":
        detail = (
            "operator must be Exists when `key` is empty, "
            'which means "match all values and all keys"'
        )
        yield invalid(f"{path}.operator", given.get("operator") or "", detail)
    if given.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid(
            f"{path}.effect",
            effect,
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        )
    match operator:
        case "Equal":
            if messages := label_value(value):
                yield invalid(f"{path}.operator", value, ";".join(messages))
        case "Exists":
            if value:
                yield invalid(
                    f"{path}.operator",
                    value,
                    "value must be empty when `operator` is 'Exists'",
                )
        case "Lt" | "Gt":
            if integer(value) is None:
                detail = "value must be a valid integer when `operator` is 'Lt' or 'Gt'"
                yield invalid(f"{path}.value", value, detail)
        case _:
            yield unsupported(f"{path}.operator", operator, ("Equal", "Exists"))


def taints(path: str, items: Sequence[Document]) -> list[str]:
    """Checks the taints of a node: each needs an effect, and no two may have the same key and
    effect.
    """
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
            shown = go_struct({"value": "", **taint}, ("Key", "Value", "Effect", "TimeAdded"))
            problems.append(duplicate(place, shown, "taints must be unique by key and effect pair"))
        seen.add((key, effect))
    return problems


def node_selector(path: str, selector: Document) -> Iterator[str]:
    """Checks that there is a term, and the requirements of each term on labels and names."""
    if not selector.get("nodeSelectorTerms"):
        yield required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
        return
    for i, term in enumerate(selector["nodeSelectorTerms"]):
        yield from _term(f"{path}.nodeSelectorTerms[{i}]", term, any_value=False)


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


def preferred_term(path: str, preferred: Document) -> list[str]:
    """Checks the requirements of a preferred term, in which label values may have any form."""
    return _term(f"{path}.preference", preferred.get("preference") or {}, any_value=True)


def pod_affinity_term(path: str, term: Document) -> Iterator[str]:
    """Checks namespaces, label keys and the topology key."""
    for name in term.get("namespaces") or ():
        yield from (invalid(f"{path}.namespace", name, message) for message in dns_label(name))
    yield from _label_keys(path, term)
    key = term.get("topologyKey") or ""
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from (invalid(f"{path}.topologyKey", key, message) for message in qualified_name(key))


def _label_keys(path: str, owner: Document) -> Iterator[str]:
    """Checks matchLabelKeys and mismatchLabelKeys, whose values come from the pod."""
    matched, mismatched = owner.get("matchLabelKeys") or (), owner.get("mismatchLabelKeys") or ()
    selector = owner.get("labelSelector")
    for field, keys in (("matchLabelKeys", matched), ("mismatchLabelKeys", mismatched)):
        place = f"{path}.{field}"
        if keys and selector is None:
            yield forbidden(place, "must not be specified when labelSelector is not set")
            continue
        for i, key in enumerate(keys):
            yield from (invalid(f"{place}[{i}]", key, message) for message in qualified_name(key))
    selected = set((selector or {}).get("matchLabels") or ())
    for requirement in (selector or {}).get("matchExpressions") or ():
        key = requirement.get("key") or ""
        if key in matched and key in selected:  # one of the two comes from matchLabelKeys
            detail = "exists in both matchLabelKeys and labelSelector"
            yield invalid(f"{path}[{matched.index(key)}]", key, detail)
        selected.add(key)
    detail = "exists in both matchLabelKeys and mismatchLabelKeys"
    yield from (
        invalid(f"{path}.matchLabelKeys[{i}]", key, detail)
        for i, key in enumerate(matched)
        if key in mismatched
    )


def spread_constraint(path: str, constraint: Document) -> Iterator[str]:
    """Checks the topology key, minDomains and label keys."""
    key, unsatisfiable = constraint.get("topologyKey"), constraint.get("whenUnsatisfiable") or ""
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    domains = constraint.get("minDomains")
    if domains is not None and unsatisfiable != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {unsatisfiable}"
        yield invalid(f"{path}.minDomains", domains, detail)
    yield from _label_keys(path, constraint)
