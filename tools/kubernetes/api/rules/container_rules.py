"""Rules across the fields of a container: its environment, handlers, probes and resources.

What depends on the pod around it is in the module pods.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from berth.actors.scheduling.kube import quantity
from berth.actors.scheduling.kube.names import dns_label, qualified_name

from .fields import (
    IN_QUOTAS,
    Document,
    duplicate,
    forbidden,
    invalid,
    required,
    resource_amount,
    unsupported,
)

_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_IN_ENV = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_MAPS = ("metadata.annotations", "metadata.labels")
_FIELDS = (*_IN_ENV, *_MAPS, "spec.restartPolicy", "spec.schedulerName", "status.phase")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_RESOURCE_FIELDS = tuple(
    f"{part}.{name}"
    for part in ("limits", "requests")
    for name in ("cpu", "ephemeral-storage", "memory")
)
_SIZES = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_DIVISORS = {  # of a resource: those allowed, and its name in messages
    "cpu": (("1m", "1"), "cpu"),
    "memory": (_SIZES, "memory"),
    "ephemeral-storage": (_SIZES, "local ephemeral storage"),
    "hugepages-": (_SIZES, "hugepages"),
}


def env_var(path: str, variable: Document) -> Iterator[str]:
    """Checks that a variable has a value or one source, and that containers may see the source."""
    source = variable.get("valueFrom")
    if source is None:
        return
    place, number = f"{path}.valueFrom", sum(source.get(field) is not None for field in _SOURCES)
    if source.get("fieldRef") is not None:
        yield from object_field(f"{place}.fieldRef", source["fieldRef"], _IN_ENV)
    if source.get("resourceFieldRef") is not None:
        yield from resource_field(f"{place}.resourceFieldRef", source["resourceFieldRef"])
    if not number:
        *others, last = (f"`{field}`" for field in _SOURCES)
        yield invalid(place, "", f"must specify one of: {', '.join(others)} or {last}")
    elif variable.get("value"):
        yield invalid(place, "", "may not be specified when `value` is not empty")
    elif number > 1:
        yield invalid(place, "", "may not have more than one field specified at a time")


def object_field(path: str, selector: Document, supported: Sequence[str]) -> list[str]:
    """Checks that containers may see this field of the pod."""
    place, field = f"{path}.fieldPath", selector.get("fieldPath") or ""
    name, bracket, subscript = field.partition("['")
    if not field:
        return []
    if selector.get("apiVersion") not in (None, "", "v1"):
        detail = f"error converting fieldPath: unsupported pod version: {selector['apiVersion']}"
        return [invalid(place, field, detail)]
    if bracket and subscript.endswith("']"):
        if name not in _MAPS:
            detail = f"error converting fieldPath: field label does not support subscript: {field}"
            return [invalid(place, field, detail)]
        key = subscript.removesuffix("']")
        key = key.lower() if name == "metadata.annotations" else key
        return [invalid(path, key, message) for message in qualified_name(key)]
    if field in supported or (field == "spec.host" and "spec.nodeName" in supported):
        return []
    if field in _FIELDS:
        return [unsupported(place, field, supported)]
    return [
        invalid(place, field, f"error converting fieldPath: field label not supported: {field}")
    ]


def resource_field(path: str, selector: Document, *, needs_container: bool = False) -> list[str]:
    """Checks that containers may see this request or limit."""
    resource, problems = selector.get("resource") or "", []
    pages = re.fullmatch("(requests|limits)\\.hugepages-.*", resource)
    if needs_container and not selector.get("containerName"):
        problems.append(required(f"{path}.containerName"))
    elif not resource:
        problems.append(required(f"{path}.resource"))
    elif resource not in _RESOURCE_FIELDS and not pages:
        problems.append(unsupported(f"{path}.resource", resource, _RESOURCE_FIELDS))
    divisor = selector.get("divisor")
    if divisor is None or not quantity.nano_value(divisor):
        return problems
    name = "hugepages-" if pages else resource.partition(".")[2]
    allowed, shown = _DIVISORS.get(name, ((), ""))
    values = {quantity.nano_value(each) for each in allowed}
    if allowed and quantity.nano_value(divisor) not in values:
        few = " and ".join(allowed) if len(allowed) == 2 else ", ".join(allowed)
        detail = f"only divisor's values {few} are supported with the {shown} resource"
        problems.append(invalid(f"{path}.divisor", resource, detail))
    return problems


def handler(path: str, value: Document) -> list[str]:
    """Checks that a probe or a hook has one handler."""
    given = [field for field in _HANDLERS if value.get(field) is not None]
    if not given:
        return [required(path, "must specify a handler type")]
    detail = "may not specify more than 1 handler type"
    return [forbidden(f"{path}.{field}", detail) for field in given[1:]]


def probe(path: str, value: Document) -> list[str]:
    """Checks that there is one handler, and a positive grace period."""
    problems, grace = handler(path, value), value.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        place = f"{path}.terminationGracePeriodSeconds"
        problems.append(invalid(place, grace, "must be greater than 0"))
    return problems


def http_get(path: str, value: Document) -> list[str]:
    """Checks the names of headers."""
    rule = (
        "a valid HTTP header must consist of alphanumeric characters or '-' "
        "(e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
    )
    return [
        invalid(f"{path}.httpHeaders", header.get("name") or "", rule)
        for header in value.get("httpHeaders") or ()
        if not re.fullmatch("[-A-Za-z0-9]+", header.get("name") or "")
    ]


def container(path: str, value: Document) -> list[str]:
    """Checks the sources of the environment, the thresholds of probes, the restart rules and the
    resources.
    """
    problems: list[str] = []
    for source in value.get("envFrom") or ():
        number = sum(source.get(field) is not None for field in ("configMapRef", "secretRef"))
        if number != 1:
            several = "may not have more than one field specified at a time"
            detail = several if number else "must specify one of: `configMapRef` or `secretRef`"
            problems.append(invalid(f"{path}.envFrom", "", detail))
    for field in ("livenessProbe", "startupProbe"):
        threshold = (value.get(field) or {}).get("successThreshold")
        if threshold not in (None, 0, 1):
            problems.append(invalid(f"{path}.{field}.successThreshold", threshold, "must be 1"))
    grace = (value.get("readinessProbe") or {}).get("terminationGracePeriodSeconds")
    if grace is not None:
        place = f"{path}.readinessProbe.terminationGracePeriodSeconds"
        problems.append(invalid(place, grace, "must not be set for readinessProbes"))
    problems += _restart_rules(path, value)
    if value.get("resources"):
        problems += resources(f"{path}.resources", value["resources"])
    return problems


def _restart_rules(path: str, value: Document) -> Iterator[str]:
    rules = value.get("restartPolicyRules") or ()
    if rules and value.get("restartPolicy") is None:
        detail = "must specify restartPolicy when restart rules are used"
        yield required(f"{path}.restartPolicy", detail)
    yield from (
        required(f"{path}.restartPolicyRules[{i}].exitCodes", "must be specified")
        for i, rule in enumerate(rules)
        if rule.get("exitCodes") is None
    )


def resize_policies(path: str, policies: Sequence[Document], restart: str) -> Iterator[str]:
    """Checks the resize policies of a container against the restart policy of its pod."""
    seen: set[str] = set()
    for i, policy in enumerate(policies):
        name, then = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            yield duplicate(f"{path}[{i}]", name)
        seen.add(name)
        choices = ((name, ("cpu", "memory")), (then, ("NotRequired", "RestartContainer")))
        for value, supported in choices:
            if not value:
                yield required(path)
            elif value not in supported:
                yield unsupported(path, value, supported)
        if restart == "Never" and then != "NotRequired":
            yield invalid(path, then, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def resources(path: str, sizes: Document, supported: Sequence[str] = ()) -> list[str]:
    """Returns the problems of requests and limits.

    Names must be known, or one of those `supported`. A request must not exceed its limit, and must
    equal it for a resource that cannot be overcommitted.
    """
    problems: list[str] = []
    limits, requests = sizes.get("limits") or {}, sizes.get("requests") or {}
    for name, amount in limits.items():
        problems += _resource(f"{path}.limits[{name}]", name, amount, supported)
    for name, amount in requests.items():
        problems += _resource(f"{path}.requests[{name}]", name, amount, supported)
        limit, exact = limits.get(name), not _is_overcommitted(name)
        if limit is None:
            if exact:
                problems.append(
                    required(f"{path}.limits", "Limit must be set for non overcommitable resources")
                )
            continue
        requested, allowed = quantity.nano_value(amount or 0), quantity.nano_value(limit)
        if exact and requested != allowed:
            problems.append(
                invalid(
                    f"{path}.requests", str(amount), f"must be equal to {name} limit of {limit}"
                )
            )
        elif requested > allowed:
            detail = f"must be less than or equal to {name} limit of {limit}"
            problems.append(invalid(f"{path}.requests", str(amount), detail))
    both = {*limits, *requests}
    if any(name.startswith("hugepages-") for name in both) and not both & {"cpu", "memory"}:
        problems.append(forbidden(path, "HugePages require cpu or memory"))
    return problems


def _resource(path: str, name: str, amount: Any, supported: Sequence[str]) -> list[str]:
    problems = name_of_resource(path, name, own=bool(supported))
    pages = name.startswith("hugepages-")
    if supported and not problems and name not in supported and not pages:
        problems.append(unsupported(path, name, supported))
    problems += resource_amount(path, name, amount)
    if pages:
        size, requested = _page_size(name), quantity.value(amount or 0)
        if size is None or requested % size:
            detail = f"{amount} is not positive integer multiple of {name}"
            problems.append(invalid(path, str(amount), detail))
    return problems


def name_of_resource(path: str, name: str, *, own: bool = False) -> list[str]:
    """Checks the name of a resource of a container, or of a pod itself."""
    if name in _CONTAINER_RESOURCES:
        return []
    if messages := qualified_name(name):
        return [invalid(path, name, message) for message in messages]
    if "/" not in name and not name.startswith("hugepages-"):
        details = ["must be a standard resource for containers"] * (not own)
        if name not in IN_QUOTAS and name != "storage":
            details.insert(0, "must be a standard resource type or fully qualified")
        return [invalid(path, name, detail) for detail in details]
    if name.startswith("requests."):
        return [invalid(path, name, "doesn't follow extended resource name standard")]
    return []


def _is_overcommitted(name: str) -> bool:
    """True if the requests of a resource may be less than its limits."""
    own = "/" not in name or "kubernetes.io/" in name
    return own and not name.startswith("hugepages-")


def _page_size(name: str) -> int | None:
    try:
        return quantity.value(name.removeprefix("hugepages-")) or None
    except quantity.QuantityError:
        return None


def used_claims(path: str, sizes: Document, claims: Sequence[str]) -> Iterator[str]:
    """Checks that the claims which a container uses are the pod's; each is used as a whole, or by
    request.
    """
    seen: set[tuple[str, str]] = set()
    for i, claim in enumerate(sizes.get("claims") or ()):
        place = f"{path}[{i}]"
        name, request = claim.get("name") or "", claim.get("request") or ""
        if not name:
            yield required(place)
            continue
        if request:
            yield from (invalid(f"{place}.request", request, m) for m in dns_label(request))
        if {(name, request), (name, "")} & seen:
            whole = (name, "") in seen or not request
            yield duplicate(place, name if whole else f"{name}/{request}")
        elif not request and any(each[0] == name for each in seen):
            yield duplicate(place, name)
        seen.add((name, request))
        if name not in claims:
            listed = f": {', '.join(sorted(claims))}" if claims else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{listed}"
            yield f'{place}: Not found: "{name}": {detail}'
