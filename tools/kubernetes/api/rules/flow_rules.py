"""Rules for flow schemas and priority levels, by which an API server shares itself out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from berth.actors.scheduling.kube.names import dns_label, dns_subdomain

from .fields import Document, duplicate, forbidden, invalid, required, unsupported

_METHODS = ("ByNamespace", "ByUser")
_TYPES = ("Exempt", "Limited")
_RESPONSES = ("Queue", "Reject")
_VERBS = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
)
# The kinds of subjects, and the fields in which they are described.
_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_EXEMPT = "exempt"
_MOST_PRECEDENCE = 10_000
_MOST_QUEUES = 10_000_000
_HASH_BITS = 60  # that choosing the queues of a flow may use


def flow_schema(document: Document, _before: Document | None) -> Iterator[str]:
    spec, path = document.get("spec") or {}, "spec"
    precedence, place = spec.get("matchingPrecedence") or 0, f"{path}.matchingPrecedence"
    if precedence <= 0:
        yield invalid(place, precedence, "must be a positive value")
    if precedence > _MOST_PRECEDENCE:
        yield invalid(place, precedence, f"must not be greater than {_MOST_PRECEDENCE}")
    if precedence == 1 and document["metadata"].get("name") != _EXEMPT:
        detail = "only the schema named 'exempt' may have matchingPrecedence 1"
        yield invalid(place, precedence, detail)
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        shown = {"Type": method.get("type") or ""}
        yield unsupported(f"{path}.distinguisherMethod.type", shown, _METHODS)
    name = (spec.get("priorityLevelConfiguration") or {}).get("name") or ""
    place = f"{path}.priorityLevelConfiguration.name"
    if not name:
        yield required(place, "must reference a priority level")
    else:
        yield from (invalid(place, name, why) for why in dns_subdomain(name))
    for i, rule in enumerate(spec.get("rules") or ()):
        yield from _rule(f"{path}.rules[{i}]", rule)


def _rule(path: str, rule: Document) -> Iterator[str]:
    subjects = rule.get("subjects") or ()
    if not subjects:
        yield required(f"{path}.subjects", "subjects must contain at least one value")
    for i, subject in enumerate(subjects):
        yield from _subject(f"{path}.subjects[{i}]", subject)
    resources, others = rule.get("resourceRules") or (), rule.get("nonResourceRules") or ()
    if not resources and not others:
        detail = "at least one of resourceRules and nonResourceRules has to be non-empty"
        yield required(path, detail)
    for i, each in enumerate(resources):
        yield from _resource_rule(f"{path}.resourceRules[{i}]", each)
    for i, each in enumerate(others):
        yield from _url_rule(f"{path}.nonResourceRules[{i}]", each)


def _subject(path: str, subject: Document) -> Iterator[str]:
    kind = subject.get("kind") or ""
    if kind not in _SUBJECTS:
        yield unsupported(f"{path}.kind", kind, sorted(_SUBJECTS))
        return
    own = _SUBJECTS[kind]
    described = subject.get(own)
    if described is None:
        yield required(f"{path}.{own}", f"{own} is required when subject kind is '{kind}'")
    else:
        yield from _description(f"{path}.{own}", kind, described)
    for other, field in _SUBJECTS.items():
        if field != own and subject.get(field) is not None:
            detail = f"{field} is forbidden when subject kind is not '{other}'"
            yield forbidden(f"{path}.{field}", detail)


def _description(path: str, kind: str, described: Document) -> Iterator[str]:
    name, namespace = described.get("name") or "", described.get("namespace") or ""
    if not name:
        yield required(f"{path}.name")
    if kind != "ServiceAccount":
        return
    if name and name != "*":
        yield from (invalid(f"{path}.name", name, why) for why in dns_subdomain(name))
    if not namespace:
        yield required(f"{path}.namespace", "must specify namespace for service account")
    else:
        yield from (invalid(f"{path}.namespace", namespace, why) for why in dns_label(namespace))


def _verbs(path: str, verbs: Sequence[str]) -> Iterator[str]:
    if not verbs:
        yield required(path, "verbs must contain at least one value")
    elif "*" in verbs:
        yield from _alone(path, verbs, "verbs")
    elif not {*verbs} <= {*_VERBS}:
        yield unsupported(path, verbs, _VERBS)


def _alone(path: str, values: Sequence[str], noun: str) -> list[str]:
    """Checks that * stands alone."""
    if len(values) < 2 or "*" not in values:
        return []
    return [invalid(path, values, f"if '*' is present, must not specify other {noun}")]


def _resource_rule(path: str, rule: Document) -> Iterator[str]:
    yield from _verbs(f"{path}.verbs", rule.get("verbs") or ())
    for field, one, noun in (
        ("apiGroups", "api group", "api groups"),
        ("resources", "resource", "resources"),
    ):
        values = rule.get(field) or ()
        if not values:
            detail = f"resource rules must supply at least one {one}"
            yield required(f"{path}.{field}", detail)
        yield from _alone(f"{path}.{field}", values, noun)
    namespaces, place = rule.get("namespaces") or (), f"{path}.namespaces"
    if not namespaces and not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        yield required(place, detail)
    elif "*" in namespaces:
        yield from _alone(place, namespaces, "namespaces")
    else:
        intro = "each member of this list must be '*' or a DNS-1123 label; "
        for i, name in enumerate(namespaces):
            yield from (invalid(f"{place}[{i}]", name, intro + why) for why in dns_label(name))


def _url_rule(path: str, rule: Document) -> Iterator[str]:
    yield from _verbs(f"{path}.verbs", rule.get("verbs") or ())
    urls, place = rule.get("nonResourceURLs") or (), f"{path}.nonResourceURLs"
    if not urls:
        yield required(place, "nonResourceURLs must contain at least one value")
    elif "*" in urls:
        yield from _alone(place, urls, "non-resource URLs")
    else:
        for i, url in enumerate(urls):
            why = _url_problem(url)
            if why:
                yield invalid(f"{place}[{i}]", url, why)


def _url_problem(url: str) -> str:
    if not url:
        return "must not be empty"
    if url == "/":
        return ""
    if url[0] != "/":
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    if url.count("*") > 1 or ("*" in url and not url.endswith("/*")):
        return "wildcard can only do suffix matching"
    return ""


def priority_level(document: Document, _before: Document | None) -> Iterator[str]:
    spec, path = document.get("spec") or {}, "spec"
    type_, limited, exempt = spec.get("type") or "", spec.get("limited"), spec.get("exempt")
    if (document["metadata"].get("name") == _EXEMPT) != (type_ == "Exempt"):
        detail = "must be 'Exempt' if and only if `name` is 'exempt'"
        yield invalid(f"{path}.type", type_, detail)
    if type_ == "Exempt":
        if limited is not None:
            yield forbidden(f"{path}.limited", "must be nil if the type is not Limited")
        if exempt is not None:
            yield from _shares(f"{path}.exempt", exempt)
            yield from _lent(f"{path}.exempt", exempt)
    elif type_ == "Limited":
        if exempt is not None:
            yield forbidden(f"{path}.exempt", "must be nil if the type is Limited")
        if limited is None:
            yield required(f"{path}.limited", "must not be empty when type is Limited")
        else:
            yield from _shares(f"{path}.limited", limited)
            response = limited.get("limitResponse") or {}
            yield from _response(f"{path}.limited.limitResponse", response)
            yield from _lent(f"{path}.limited", limited)
            borrowed = limited.get("borrowingLimitPercent")
            if borrowed is not None and borrowed < 0:
                place = f"{path}.limited.borrowingLimitPercent"
                yield invalid(place, borrowed, "if specified, must be a non-negative integer")
    else:
        yield unsupported(f"{path}.type", type_, _TYPES)


def _shares(path: str, level: Document) -> Iterator[str]:
    shares = level.get("nominalConcurrencyShares")
    if shares is not None and shares < 0:
        detail = "must be a non-negative integer"
        yield invalid(f"{path}.nominalConcurrencyShares", shares, detail)


def _lent(path: str, level: Document) -> Iterator[str]:
    lent = level.get("lendablePercent")
    if lent is not None and not 0 <= lent <= 100:
        detail = "must be between 0 and 100, inclusive"
        yield invalid(f"{path}.lendablePercent", lent, detail)


def _response(path: str, response: Document) -> Iterator[str]:
    type_, queuing, place = response.get("type") or "", response.get("queuing"), f"{path}.queuing"
    if type_ not in _RESPONSES:
        yield unsupported(f"{path}.type", type_, _RESPONSES)
    elif type_ == "Reject":
        if queuing is not None:
            detail = "must be nil if limited.limitResponse.type is not Limited"
            yield forbidden(place, detail)
    elif queuing is None:
        yield required(place, "must not be empty if limited.limitResponse.type is Limited")
    else:
        yield from _queuing(place, queuing)


def _queuing(path: str, queuing: Document) -> Iterator[str]:
    """Checks that the queues of a flow can be chosen from the bits of a hash."""
    queues, hand, length = (
        queuing.get(field) or 0 for field in ("queues", "handSize", "queueLengthLimit")
    )
    if length <= 0:
        yield invalid(f"{path}.queueLengthLimit", length, "must be positive")
    if queues <= 0:
        yield invalid(f"{path}.queues", queues, "must be positive")
    elif queues > _MOST_QUEUES:
        yield invalid(f"{path}.queues", queues, f"must not be greater than {_MOST_QUEUES}")
    place = f"{path}.handSize"
    if hand <= 0:
        yield invalid(place, hand, "must be positive")
    elif hand > queues:
        yield invalid(place, hand, f"should not be greater than queues ({queues})")
    elif _entropy_bits(queues, hand) > _HASH_BITS:
        detail = (
            f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater "
            f"than {_HASH_BITS}"
        )
        yield invalid(place, hand, detail)


def _entropy_bits(deck: int, hand: int) -> int:
    """Returns the bits that choosing a hand from a deck needs."""
    return math.ceil(math.log2(deck) * hand)


def conditions(document: Document, _before: Document) -> Iterator[str]:
    """Checks that the conditions of a status have types, and different ones."""
    types = set[str]()
    for i, condition in enumerate((document.get("status") or {}).get("conditions") or ()):
        path, type_ = f"status.conditions[{i}].type", condition.get("type") or ""
        if type_ in types:
            yield duplicate(path, type_)
        types.add(type_)
        if not type_:
            yield required(path)
