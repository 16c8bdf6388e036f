"""LimitRanges: default requests and limits of new containers, and bounds for pods and claims.

Mirrors the admission plugin LimitRanger. Amounts are compared as integers of nano units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import gt, lt
from typing import Any

from berth.actors.scheduling.kube.quantity import nano_value

from ..store import Store
from ..types.amounts import pod_sums, sums_of
from ..types.api_documents import Document, names_of
from ..types.resources import BY_KIND, Kind
from .refusals import forbidden

LIMIT_RANGES = BY_KIND["v1", "LimitRange"]
PODS = BY_KIND["v1", "Pod"]
ANNOTATION = "kubernetes.io/limit-ranger"
POD_LEVEL = ("cpu", "memory")  # the resources of a whole pod that its containers' do not count for
_ONE = 1_000_000_000

Amounts = Mapping[str, Any]
Check = Callable[[str, str, Any, Amounts, Amounts], str]


def with_default_limits(store: Store, pod: Document) -> Document:
    """Returns a new pod whose containers have the default requests and limits of its namespace."""
    for limit_range in _limit_ranges(store, pod):
        pod = _with_defaults(pod, limit_range)
    return pod


def check_limits(store: Store, kind: Kind, document: Document) -> None:
    """Raises RefusedError with 403 for a pod or a claim out of the bounds of its namespace."""
    for limit_range in _limit_ranges(store, document):
        out_of_bounds = _pod_problems if kind is PODS else _claim_problems
        problems = list(dict.fromkeys(out_of_bounds(limit_range, document)))
        if problems:
            listed = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise forbidden(kind, names_of(document)[1], listed)


def _limit_ranges(store: Store, document: Document) -> Iterable[Document]:
    if not store.has(LIMIT_RANGES):
        return ()
    namespace = document["metadata"]["namespace"]
    return [stored.document for stored in store.list(LIMIT_RANGES, namespace)]


def _limits(limit_range: Document, kind: str) -> list[Document]:
    limits = (limit_range.get("spec") or {}).get("limits") or ()
    return [limit for limit in limits if limit.get("type") == kind]


def _with_defaults(pod: Document, limit_range: Document) -> Document:
    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for limit in _limits(limit_range, "Container"):
        requests |= limit.get("defaultRequest") or {}
        limits |= limit.get("default") or {}
    notes: list[str] = []
    spec = dict(pod["spec"])
    for field, title in (("containers", "container"), ("initContainers", "init container")):
        if spec.get(field):
            spec[field] = [
                _with_container_defaults(container, requests, limits, title, notes)
                for container in spec[field]
            ]
    if not notes:
        return pod
    metadata = pod["metadata"]
    note = f"LimitRanger plugin set: {'; '.join(notes)}"
    annotations = {**(metadata.get("annotations") or {}), ANNOTATION: note}
    return {**pod, "spec": spec, "metadata": {**metadata, "annotations": annotations}}


def _with_container_defaults(
    container: Document, requests: Amounts, limits: Amounts, title: str, notes: list[str]
) -> Document:
    """Returns a container with the defaults that it lacks, and adds these to `notes`."""
    resources = dict(container.get("resources") or {})
    for field, defaults, what in (
        ("requests", requests, "request"),
        ("limits", limits, "limit"),
    ):
        own = resources.get(field) or {}
        missing = {name: amount for name, amount in defaults.items() if name not in own}
        if missing:
            resources[field] = {**own, **missing}
            notes.append(
                f"{', '.join(sorted(missing))} {what} for {title} {container.get('name', '')}"
            )
    return {**container, "resources": resources}


def _pod_problems(limit_range: Document, pod: Document) -> Iterator[str]:
    spec = pod["spec"]
    for limit in _limits(limit_range, "Container"):
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            resources = container.get("resources") or {}
            yield from _out_of_bounds(
                limit, resources.get("requests") or {}, resources.get("limits") or {}
            )
    for limit in _limits(limit_range, "Pod"):
        yield from _out_of_bounds(limit, _sums(spec, "requests"), _sums(spec, "limits"))


def _claim_problems(limit_range: Document, claim: Document) -> Iterator[str]:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    for limit in _limits(limit_range, "PersistentVolumeClaim"):
        yield from _each(limit, "min", _below_minimum, requests, {})
        yield from _each(limit, "max", _request_above, requests, {})


def _out_of_bounds(limit: Document, requests: Amounts, limits: Amounts) -> Iterator[str]:
    yield from _each(limit, "min", _below_minimum, requests, limits)
    yield from _each(limit, "max", _above_maximum, requests, limits)
    yield from _each(limit, "maxLimitRequestRatio", _ratio_above, requests, limits)


def _each(
    limit: Document, field: str, check: Check, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    for name, bound in (limit.get(field) or {}).items():
        problem = check(limit["type"], name, bound, requests, limits)
        if problem:
            yield problem


def _below_minimum(kind: str, name: str, least: Any, requests: Amounts, limits: Amounts) -> str:
    rule = f"minimum {name} usage per {kind} is {least}"
    return _bound_problem(rule, name, lt, least, ("request", requests), ("limit", limits))


def _above_maximum(kind: str, name: str, most: Any, requests: Amounts, limits: Amounts) -> str:
    rule = f"maximum {name} usage per {kind} is {most}"
    return _bound_problem(rule, name, gt, most, ("limit", limits), ("request", requests))


def _request_above(kind: str, name: str, most: Any, requests: Amounts, _: Amounts) -> str:
    rule = f"maximum {name} usage per {kind} is {most}"
    return _bound_problem(rule, name, gt, most, ("request", requests))


def _bound_problem(
    rule: str,
    name: str,
    is_beyond: Callable[[int, int], bool],
    bound: Any,
    *amounts: tuple[str, Amounts],
) -> str:
    """Returns in words which amount is out of bounds, or missing."""
    word, of_first = amounts[0]
    if name not in of_first:
        return f"{rule}.  No {word} is specified"
    for word, of in amounts:
        if name in of and is_beyond(nano_value(of[name]), nano_value(bound)):
            return f"{rule}, but {word} is {of[name]}"
    return ""


def _ratio_above(kind: str, name: str, most: Any, requests: Amounts, limits: Amounts) -> str:
    rule = f"{name} max limit to request ratio per {kind} is {most}, but"
    request, limit = nano_value(requests.get(name, 0)), nano_value(limits.get(name, 0))
    if not request:
        return f"{rule} no request is specified or request is 0"
    if not limit:
        return f"{rule} no limit is specified or limit is 0"
    if limit * _ONE > nano_value(most) * request:
        return f"{rule} provided ratio is {limit / request:f}"
    return ""


def _sums(spec: Document, field: str) -> Mapping[str, Any]:
    """Returns the requests or limits of a pod. For cpu and memory the pod's own take precedence."""
    sums = pod_sums(
        spec, lambda container: sums_of((container.get("resources") or {}).get(field) or {})
    )
    own = (spec.get("resources") or {}).get(field) or {}
    return {
        **{name: total.text() for name, total in sums.items()},
        **{name: own[name] for name in POD_LEVEL if name in own},
    }
