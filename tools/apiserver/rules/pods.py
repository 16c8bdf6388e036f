"""Rules for a pod's spec, in a pod or in a workload's template: containers, resources, names.

The module placement checks where the pod may run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from berth.actors.scheduling.kube import quantity
from berth.actors.scheduling.kube.names import dns_label, dns_subdomain, qualified_name

from . import placement
from .fields import (
    Document,
    between,
    duplicate,
    forbidden,
    invalid,
    is_extended,
    labels,
    non_negative,
    one_of,
    quantities,
    required,
    resource_amount,
    unsupported,
)

RESTARTS = ("Always", "Never", "OnFailure")
PROTOCOLS = ("SCTP", "TCP", "UDP")
_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_STANDARD = (
    *_CONTAINER_RESOURCES,
    "storage",
    "pods",
    "services",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
)
_NOT_A_SOURCE = ("name",)


def pod_spec(path: str, spec: Document) -> list[str]:
    problems: list[str] = []
    named: set[str] = set()
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    claims = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    if spec.get("volumes"):
        problems += _volumes(f"{path}.volumes", spec["volumes"])
    if not spec.get("containers"):
        problems.append(required(f"{path}.containers"))
    for field in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(field) or ()):
            problems += _container(f"{path}.{field}[{i}]", container, named, volumes, claims)
    for i, container in enumerate(spec.get("initContainers") or ()):
        problems += one_of(
            f"{path}.initContainers[{i}].restartPolicy", container.get("restartPolicy"), RESTARTS
        )
    problems += one_of(f"{path}.restartPolicy", spec.get("restartPolicy"), RESTARTS)
    problems += one_of(
        f"{path}.dnsPolicy",
        spec.get("dnsPolicy"),
        ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    )
    problems += one_of(
        f"{path}.preemptionPolicy", spec.get("preemptionPolicy"), ("PreemptLowerPriority", "Never")
    )
    problems += labels(f"{path}.nodeSelector", spec.get("nodeSelector"))
    for field in ("nodeName", "serviceAccountName", "priorityClassName", "runtimeClassName"):
        if name := spec.get(field):
            problems += [
                invalid(f"{path}.{field}", name, message) for message in dns_subdomain(name)
            ]
    for field in ("hostname", "subdomain"):
        if name := spec.get(field):
            problems += [invalid(f"{path}.{field}", name, message) for message in dns_label(name)]
    if (deadline := spec.get("activeDeadlineSeconds")) is not None:
        problems += between(f"{path}.activeDeadlineSeconds", deadline, 1, (1 << 31) - 1)
    problems += non_negative(
        f"{path}.terminationGracePeriodSeconds", spec.get("terminationGracePeriodSeconds")
    )
    problems += _gates(f"{path}.schedulingGates", spec.get("schedulingGates") or ())
    problems += _claims(f"{path}.resourceClaims", spec.get("resourceClaims") or ())
    problems += quantities(f"{path}.overhead", spec.get("overhead"))
    if spec.get("resources"):
        problems += _pod_resources(path, spec)
    return problems + placement.placement(path, spec)


def pod_template(path: str, template: Document) -> list[str]:
    metadata = template.get("metadata") or {}
    return labels(f"{path}.metadata.labels", metadata.get("labels")) + pod_spec(
        f"{path}.spec", template.get("spec") or {}
    )


def new_pod(spec: Document) -> list[str]:
    """Checks a pod that is created, beyond the rules for its spec."""
    problems: list[str] = []
    if spec.get("ephemeralContainers"):
        problems.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        problems.append(
            forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
        )
    return problems


def _container(
    path: str, container: Document, named: set[str], volumes: set[Any], claims: set[Any]
) -> list[str]:
    problems: list[str] = []
    name = container.get("name")
    if not name:
        problems.append(required(f"{path}.name"))
    elif messages := dns_label(name):
        problems += [invalid(f"{path}.name", name, message) for message in messages]
    elif name in named:
        problems.append(duplicate(f"{path}.name", name))
    named.add(name or "")
    image = container.get("image") or ""
    if not image:
        problems.append(required(f"{path}.image"))
    elif image.strip() != image:
        problems.append(
            invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
        )
    problems += one_of(
        f"{path}.imagePullPolicy",
        container.get("imagePullPolicy"),
        ("Always", "IfNotPresent", "Never"),
    )
    for i, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            problems.append(required(f"{path}.env[{i}].name"))
        elif variable.get("value") and variable.get("valueFrom"):
            detail = "may not be specified when `value` is not empty"
            problems.append(invalid(f"{path}.env[{i}].valueFrom", "", detail))
    mounted: set[str] = set()
    for i, mount in enumerate(container.get("volumeMounts") or ()):
        problems += _mount(f"{path}.volumeMounts[{i}]", mount, volumes, mounted)
    if container.get("ports"):
        problems += _ports(f"{path}.ports", container["ports"])
    if container.get("resources"):
        problems += resources(f"{path}.resources", container["resources"])
        problems += _used_claims(f"{path}.resources.claims", container["resources"], claims)
    return problems


def _used_claims(path: str, sizes: Document, claims: set[Any]) -> list[str]:
    """Checks the claims of the pod that a container uses, each as a whole or by request."""
    problems: list[str] = []
    seen: set[tuple[str, str]] = set()
    for i, claim in enumerate(sizes.get("claims") or ()):
        name, request = claim.get("name") or "", claim.get("request") or ""
        if not name:
            problems.append(required(f"{path}[{i}].name"))
        elif name not in claims:
            problems.append(f'{path}[{i}].name: Not found: "{name}"')
        if {(name, request), (name, "")} & seen:
            problems.append(duplicate(f"{path}[{i}]", f"{name}/{request}" if request else name))
        seen.add((name, request))
    return problems


def _mount(path: str, mount: Document, volumes: set[Any], mounted: set[str]) -> list[str]:
    problems: list[str] = []
    name, place = mount.get("name") or "", mount.get("mountPath") or ""
    if not name:
        problems.append(required(f"{path}.name"))
    elif name not in volumes:
        problems.append(f'{path}.name: Not found: "{name}"')
    if not place:
        problems.append(required(f"{path}.mountPath"))
    elif place in mounted:
        problems.append(invalid(f"{path}.mountPath", place, "must be unique"))
    mounted.add(place)
    return problems


def _ports(path: str, ports: Sequence[Document]) -> list[str]:
    problems: list[str] = []
    names: set[str] = set()
    for i, port in enumerate(ports):
        place = f"{path}[{i}]"
        if name := port.get("name"):
            problems += [invalid(f"{place}.name", name, message) for message in dns_label(name)]
            if name in names:
                problems.append(duplicate(f"{place}.name", name))
            names.add(name)
        number = port.get("containerPort") or 0
        problems += (
            between(f"{place}.containerPort", number, 1, 65535)
            if number
            else [required(f"{place}.containerPort")]
        )
        if host := port.get("hostPort"):
            problems += between(f"{place}.hostPort", host, 1, 65535)
        problems += one_of(f"{place}.protocol", port.get("protocol"), PROTOCOLS)
    return problems


def resources(path: str, sizes: Document) -> list[str]:
    """Returns the problems of requests and limits.

    Names must be known. A request must not exceed its limit, and must equal it for a resource that
    cannot be overcommitted.
    """
    problems: list[str] = []
    limits, requests = sizes.get("limits") or {}, sizes.get("requests") or {}
    for name, amount in limits.items():
        problems += _resource(f"{path}.limits[{name}]", name, amount)
    for name, amount in requests.items():
        problems += _resource(f"{path}.requests[{name}]", name, amount)
        limit, exact = limits.get(name), is_extended(name) or name.startswith("hugepages-")
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


def _resource(path: str, name: str, amount: Any) -> list[str]:
    problems: list[str] = []
    if name not in _CONTAINER_RESOURCES:
        problems += [invalid(path, name, message) for message in qualified_name(name)]
        if "/" not in name and not name.startswith("hugepages-"):
            if name not in _STANDARD:
                problems.append(
                    invalid(path, name, "must be a standard resource type or fully qualified")
                )
            problems.append(invalid(path, name, "must be a standard resource for containers"))
    if name.startswith("hugepages-"):
        size, requested = _page_size(name), quantity.value(amount or 0)
        if size is None:
            problems.append(invalid(path, name, "must be a valid hugepage resource name"))
        elif requested % size:
            page = name.removeprefix("hugepages-")
            problems.append(
                invalid(path, str(amount), f"amount must be a multiple of the page size {page}")
            )
    return problems + resource_amount(path, name, amount)


def _page_size(name: str) -> int | None:
    try:
        return quantity.value(name.removeprefix("hugepages-")) or None
    except quantity.QuantityError:
        return None


def _pod_resources(path: str, spec: Document) -> list[str]:
    """Returns the problems of the resources in the pod's own spec.

    They may be CPU, memory and huge pages only, and no less than what the containers request.
    """
    own, place = spec["resources"], f"{path}.resources"
    problems = resources(place, own)
    if own.get("claims"):
        problems.append(
            forbidden(f"{place}.claims", "claims cannot be set for Resources at pod-level")
        )
    for field in ("limits", "requests"):
        for name in own.get(field) or ():
            if name not in ("cpu", "memory") and not name.startswith("hugepages-"):
                problems.append(
                    unsupported(f"{place}.{field}[{name}]", name, ("cpu", "hugepages-", "memory"))
                )
    for name, amount in (own.get("requests") or {}).items():
        nano = sum(
            quantity.nano_value(
                ((container.get("resources") or {}).get("requests") or {}).get(name) or 0
            )
            for container in spec.get("containers") or ()
        )
        if nano > quantity.nano_value(amount):
            total = f"{nano // 1_000_000}m" if nano % 1_000_000_000 else str(nano // 1_000_000_000)
            detail = f"must be greater than or equal to aggregate container requests of {total}"
            problems.append(invalid(f"{place}.requests[{name}]", str(amount), detail))
    return problems


def _volumes(path: str, volumes: Sequence[Document]) -> list[str]:
    problems: list[str] = []
    names: set[str] = set()
    for i, volume in enumerate(volumes):
        place, name = f"{path}[{i}]", volume.get("name") or ""
        if not name:
            problems.append(required(f"{place}.name"))
        problems += [
            invalid(f"{place}.name", name, message) for message in (dns_label(name) if name else ())
        ]
        if name in names:
            problems.append(duplicate(f"{place}.name", name))
        names.add(name)
        sources = [
            field
            for field, value in volume.items()
            if field not in _NOT_A_SOURCE and value is not None
        ]
        if not sources:
            problems.append(required(place, "must specify a volume type"))
        problems += [
            forbidden(f"{place}.{field}", "may not specify more than 1 volume type")
            for field in sources[1:]
        ]
        if volume.get("persistentVolumeClaim") == {}:
            problems.append(required(f"{place}.persistentVolumeClaim.claimName"))
    return problems


def _gates(path: str, gates: Sequence[Document]) -> list[str]:
    problems: list[str] = []
    seen: set[str] = set()
    for i, gate in enumerate(gates):
        name = gate.get("name") or ""
        problems += [invalid(f"{path}[{i}]", name, message) for message in qualified_name(name)]
        if name in seen:
            problems.append(duplicate(f"{path}[{i}]", name))
        seen.add(name)
    return problems


def _claims(path: str, claims: Sequence[Document]) -> list[str]:
    problems: list[str] = []
    seen: set[str] = set()
    for i, claim in enumerate(claims):
        place, name = f"{path}[{i}]", claim.get("name") or ""
        if not name:
            problems.append(required(f"{place}.name"))
        elif name in seen:
            problems.append(duplicate(f"{place}.name", name))
        else:
            problems += [invalid(f"{place}.name", name, message) for message in dns_label(name)]
        seen.add(name)
        from_claim, from_template = (
            claim.get("resourceClaimName"),
            claim.get("resourceClaimTemplateName"),
        )
        fields = "`resourceClaimName`, `resourceClaimTemplateName`"
        if from_claim is not None and from_template is not None:
            problems.append(invalid(place, claim, f"at most one of {fields} may be specified"))
        elif from_claim is None and from_template is None:
            problems.append(invalid(place, claim, f"must specify one of: {fields}"))
        for field in ("resourceClaimName", "resourceClaimTemplateName"):
            if (named := claim.get(field)) is not None:
                problems += [
                    invalid(f"{place}.{field}", named, message) for message in dns_subdomain(named)
                ]
    return problems
