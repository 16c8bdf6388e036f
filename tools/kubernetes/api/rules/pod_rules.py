"""Rules across the fields of a pod's spec, in a pod or in a workload's template.

The marks of types.txt check single fields. The modules containers, volumes, security and placement
have the rules of the parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from berth.actors.scheduling.kube import quantity
from berth.actors.scheduling.kube.names import dns_subdomain, qualified_name

from . import security_rules
from .container_rules import resize_policies, resources, used_claims
from .fields import (
    Document,
    annotation_rules,
    duplicate,
    forbidden,
    go_struct,
    invalid,
    labels,
    required,
)
from .pod_updates import mirror_annotation, pod_update
from .value_forms import relative_path
from .volume_rules import unique_places, volume_mounts

Placed = tuple[str, Document]  # a container with its path

_LISTS = ("containers", "initContainers", "ephemeralContainers")
_OF_SIDECARS = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_NOT_EPHEMERAL = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
_MOST_SERVERS, _MOST_SEARCHES, _MOST_SEARCH_BYTES = 3, 32, 2048
_DEFAULT_GRACE = 30
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_OF_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"


def pod_spec(path: str, spec: Document) -> Iterator[str]:
    """Checks the parts of the pod that containers refer to: volumes, claims, host ports,
    namespaces, operating system.
    """
    containers = [
        (f"{path}.{field}[{i}]", container)
        for field in _LISTS
        for i, container in enumerate(spec.get(field) or ())
    ]
    claims = [claim["name"] for claim in spec.get("resourceClaims") or () if claim.get("name")]
    sources = {volume.get("name"): volume for volume in spec.get("volumes") or ()}
    for place, container in containers:
        yield from volume_mounts(place, container, sources)
        yield from unique_places(place, container)
        yield from _file_keys(place, container, sources)
        yield from _propagation(place, container)
        sizes = container.get("resources") or {}
        yield from used_claims(f"{place}.resources.claims", sizes, claims)
        yield from resize_policies(
            f"{place}.resizePolicy",
            container.get("resizePolicy") or (),
            spec.get("restartPolicy") or "",
        )
        yield from _lifecycle_sleeps(place, container.get("lifecycle") or {}, spec)
    yield from _repeated_names(path, spec)
    yield from _init_containers(path, spec)
    yield from _ephemeral(path, spec)
    yield from _host_ports(path, spec)
    if spec.get("resources"):
        yield from _own_resources(path, spec)
        yield from used_claims(f"{path}.resources.claims", spec["resources"], claims)
    yield from security_rules.pod_security(path, spec, containers)
    yield from _dns(f"{path}.dnsConfig", spec)
    yield from _scheduling_gates(f"{path}.schedulingGates", spec.get("schedulingGates") or ())
    yield from _spread_constraints(f"{path}.topologySpreadConstraints", spec)
    if spec.get("overhead"):
        yield from resources(f"{path}.overhead", {"limits": spec["overhead"]})
    yield from security_rules.operating_system(path, spec, containers)


def pod_template(path: str, template: Document) -> Iterator[str]:
    """Checks labels and annotations, and that there are no ephemeral containers."""
    metadata = template.get("metadata") or {}
    yield from labels(f"{path}.labels", metadata.get("labels"))
    yield from annotation_rules(f"{path}.annotations", metadata.get("annotations"))
    yield from pod_annotations(f"{path}.annotations", metadata, template.get("spec") or {})
    if (template.get("spec") or {}).get("ephemeralContainers"):
        place = f"{path}.spec.ephemeralContainers"
        yield forbidden(place, "ephemeral containers not allowed in pod template")


def pod(document: Document, before: Document | None) -> Iterator[str]:
    """Checks what concerns the pod as a whole, and its updates."""
    spec = document.get("spec") or {}
    yield from mirror_annotation(document, before)
    yield from pod_annotations("metadata.annotations", document["metadata"], spec)
    if before is None:
        yield from _new_pod(spec)
    else:
        yield from pod_update(spec, before.get("spec") or {})


def pod_annotations(path: str, metadata: Document, spec: Document) -> Iterator[str]:
    """Yields the problems of annotations that have a meaning for pods."""
    containers = {each.get("name") for field in _LISTS for each in spec.get(field) or ()}
    for key, value in (metadata.get("annotations") or {}).items():
        place, profile = f"{path}[{key}]", value or ""
        if key == _DELETION_COST:
            if (
                not re.fullmatch("0|-?[1-9][0-9]{0,9}", profile)
                or not -(1 << 31) <= int(profile) < 1 << 31
            ):
                yield invalid(place, profile, "must be a 32bit integer")
        elif key.startswith(_APP_ARMOR):
            name = key.removeprefix(_APP_ARMOR)
            if name not in containers:
                yield invalid(place, name, "container not found")
            if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(
                "localhost/"
            ):
                yield invalid(place, profile, f'invalid AppArmor profile name: "{profile}"')
        elif key == _SECCOMP_OF_POD or key.startswith(_SECCOMP):
            known = ("runtime/default", "docker/default", "unconfined")
            if profile.startswith("localhost/"):
                yield from relative_path(f"{path}.{key}", profile.removeprefix("localhost/"))
            elif profile not in known:
                yield invalid(f"{path}.{key}", profile, "must be a valid seccomp profile")


def _new_pod(spec: Document) -> Iterator[str]:
    """Checks a pod that is created, beyond the rules for its spec."""
    if spec.get("ephemeralContainers"):
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield forbidden(
            "spec.nodeName", "cannot be set until all schedulingGates have been cleared"
        )


def pod_only_rules(spec: Document) -> Iterator[str]:
    """Checks the rules that apply to pods but not to templates, whose missing fields are set when a
    pod is made.
    """
    for field in _LISTS:
        for i, container in enumerate(spec.get(field) or ()):
            image = container.get("image") or ""
            if image.strip() != image:
                place = f"spec.{field}[{i}].image"
                yield invalid(place, image, "must not have leading or trailing whitespace")
    for i, volume in enumerate(spec.get("volumes") or ()):
        place = f"spec.volumes[{i}]"
        if volume.get("image") is not None and not volume["image"].get("reference"):
            yield required(f"{place}.image.reference")


def _file_keys(
    path: str, container: Document, sources: dict[str | None, Document]
) -> Iterator[str]:
    """Yields the problems of variables that are read from files, which must be in an emptyDir."""
    for i, variable in enumerate(container.get("env") or ()):
        key = (variable.get("valueFrom") or {}).get("fileKeyRef")
        if key is None:
            continue
        place, name = f"{path}.env[{i}].valueFrom.fileKeyRef.volumeName", key.get("volumeName")
        if name not in sources:
            yield f'{place}: Not found: "{name or ""}"'
        elif sources[name].get("emptyDir") is None:
            yield invalid(place, name, "referenced volume must be of type emptyDir")


def _propagation(path: str, container: Document) -> Iterator[str]:
    privileged = (container.get("securityContext") or {}).get("privileged")
    place = f"{path}.volumeMounts"
    for mount in container.get("volumeMounts") or ():
        mode, recursive = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
        if mode == "Bidirectional" and not privileged:
            detail = "Bidirectional mount propagation is available only to privileged containers"
            yield forbidden(f"{place}.mountPropagation", detail)
        if mount.get("subPath") and mount.get("subPathExpr"):
            detail = "subPathExpr and subPath are mutually exclusive"
            index = container["volumeMounts"].index(mount)
            yield invalid(f"{place}[{index}].subPathExpr", mount["subPathExpr"], detail)
        if recursive not in ("Enabled", "IfPossible"):
            continue
        if not mount.get("readOnly"):
            detail = "may only be specified when readOnly is true"
            yield forbidden(f"{place}.recursiveReadOnly", detail)
        if mode not in (None, "None"):
            detail = "may only be specified when mountPropagation is None or not specified"
            yield forbidden(f"{place}.recursiveReadOnly", detail)


def _lifecycle_sleeps(path: str, lifecycle: Document, spec: Document) -> Iterator[str]:
    """Yields the problems of sleeping lifecycle hooks, which the grace period limits."""
    grace = spec.get("terminationGracePeriodSeconds")
    grace = _DEFAULT_GRACE if grace is None else grace
    for hook in ("postStart", "preStop"):
        seconds = ((lifecycle.get(hook) or {}).get("sleep") or {}).get("seconds")
        if seconds is not None and not 0 <= seconds <= grace:
            detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            yield invalid(f"{path}.lifecycle.{hook}.sleep", seconds, detail)


def _repeated_names(path: str, spec: Document) -> Iterator[str]:
    """Yields a problem for each init or ephemeral container whose name another container has."""
    seen = {container.get("name") for container in spec.get("containers") or ()}
    for field in _LISTS[1:]:
        for i, container in enumerate(spec.get(field) or ()):
            name = container.get("name")
            if name and name in seen:
                yield duplicate(f"{path}.{field}[{i}].name", name)
            seen.add(name)


def _init_containers(path: str, spec: Document) -> Iterator[str]:
    """Yields the problems of init containers. One that always restarts is a sidecar."""
    for i, container in enumerate(spec.get("initContainers") or ()):
        if container.get("restartPolicy") == "Always":
            continue
        place = f"{path}.initContainers[{i}]"
        for field in _OF_SIDECARS:
            if container.get(field) is not None:
                detail = "may not be set for init containers without restartPolicy=Always"
                yield forbidden(f"{place}.{field}", detail)
        for j, policy in enumerate(container.get("resizePolicy") or ()):
            if policy.get("restartPolicy") == "RestartContainer":
                at = f"{place}.resizePolicy[{j}].restartPolicy"
                detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                yield invalid(at, "RestartContainer", detail)


def _ephemeral(path: str, spec: Document) -> Iterator[str]:
    detail = "cannot be set for an Ephemeral Container"
    others = {each.get("name") for field in _LISTS[:2] for each in spec.get(field) or ()}
    for i, container in enumerate(spec.get("ephemeralContainers") or ()):
        place, target = f"{path}.ephemeralContainers[{i}]", container.get("targetContainerName")
        if target and target not in others:
            yield f'{place}.targetContainerName: Not found: "{target}"'
        for field in _NOT_EPHEMERAL:
            if container.get(field):
                yield forbidden(f"{place}.{field}", detail)
        for j, mount in enumerate(container.get("volumeMounts") or ()):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    yield forbidden(f"{place}.volumeMounts[{j}].{field}", detail)


def _host_ports(path: str, spec: Document) -> Iterator[str]:
    """Yields the problems of host ports: containers use each once, and init containers are counted
    apart.
    """
    used: set[str] = set()
    for field in _LISTS[:2]:
        for i, container in enumerate(spec.get(field) or ()):
            taken = used if field == "containers" else set()
            for j, port in enumerate(container.get("ports") or ()):
                number = port.get("hostPort")
                place = f"{path}.{field}[{i}].ports[{j}].hostPort"
                key = f"{port.get('protocol') or 'TCP'}/{port.get('hostIP') or ''}/{number}"
                if number and key in taken:
                    yield duplicate(place, key)
                taken.add(key)
                own = field == "containers" and spec.get("hostNetwork")
                if own and number and number != port.get("containerPort"):
                    detail = "must match `containerPort` when `hostNetwork` is true"
                    yield invalid(place, number, detail)


def _own_resources(path: str, spec: Document) -> Iterator[str]:
    """Returns the problems of the resources in the pod's own spec.

    They may be CPU, memory and huge pages only, and no less than what the containers request.
    """
    own, place = spec["resources"], f"{path}.resources"
    if (spec.get("os") or {}).get("name") == "windows":
        yield forbidden(place, "may not be set for a windows pod")
        return
    if own.get("claims"):
        yield forbidden(f"{place}.claims", "claims may not be set for Resources at pod-level")
    yield from resources(place, own, ("cpu", "hugepages-", "memory"))
    containers = spec.get("containers") or ()
    for field in ("requests", "limits"):
        for name, amount in (own.get(field) or {}).items():
            nano = sum(
                quantity.nano_value(((each.get("resources") or {}).get(field) or {}).get(name) or 0)
                for each in containers
            )
            summed = field == "requests" or name.startswith("hugepages-")
            if summed and nano > quantity.nano_value(amount):
                total = (
                    f"{nano // 1_000_000}m" if nano % 1_000_000_000 else str(nano // 1_000_000_000)
                )
                detail = f"must be greater than or equal to aggregate container {field} of {total}"
                yield invalid(f"{place}.{field}[{name}]", str(amount), detail)
    for i, container in enumerate(containers):
        for name, amount in ((container.get("resources") or {}).get("limits") or {}).items():
            most = (own.get("limits") or {}).get(name)
            if most is not None and quantity.nano_value(amount) > quantity.nano_value(most):
                at = f"{place}.containers[{i}][{name}].limits"
                detail = f"must be less than or equal to pod limits of {most}"
                yield invalid(at, str(amount), detail)


def _dns(path: str, spec: Document) -> Iterator[str]:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(f"{path}.nameservers", detail)
            return
    servers, searches = (
        (config or {}).get("nameservers") or (),
        (config or {}).get("searches") or (),
    )
    if len(servers) > _MOST_SERVERS:
        detail = f"must not have more than {_MOST_SERVERS} nameservers"
        yield invalid(f"{path}.nameservers", servers, detail)
    if len(searches) > _MOST_SEARCHES:
        detail = f"must not have more than {_MOST_SEARCHES} search paths"
        yield invalid(f"{path}.searches", searches, detail)
    if len(" ".join(searches).encode()) > _MOST_SEARCH_BYTES:
        detail = (
            f"must not have more than {_MOST_SEARCH_BYTES} characters (including spaces) "
            "in the search list"
        )
        yield invalid(f"{path}.searches", searches, detail)
    yield from (
        required(f"{path}.options[{i}]", "must not be empty")
        for i, option in enumerate((config or {}).get("options") or ())
        if not option.get("name")
    )


def _scheduling_gates(path: str, gates: Sequence[Document]) -> Iterator[str]:
    seen: set[str] = set()
    for i, gate in enumerate(gates):
        name = gate.get("name") or ""
        yield from (invalid(f"{path}[{i}]", name, message) for message in qualified_name(name))
        if name in seen:
            yield duplicate(f"{path}[{i}]", name)
        seen.add(name)


def _spread_constraints(path: str, spec: Document) -> list[str]:
    """Returns a problem for each spread constraint that a later one repeats."""
    constraints = spec.get("topologySpreadConstraints") or ()
    pairs = [
        (each.get("topologyKey") or "", each.get("whenUnsatisfiable") or "") for each in constraints
    ]
    return [
        duplicate(f"{path}[{i}].{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}")
        for i, pair in enumerate(pairs)
        if pair in pairs[i + 1 :]
    ]


def claim(path: str, value: Document) -> list[str]:
    """Checks that a claim of a pod names either a ResourceClaim or a template of one."""
    names = ("resourceClaimName", "resourceClaimTemplateName")
    number = sum(value.get(field) is not None for field in names)
    if number == 1:
        return []
    shown = go_struct(value, ("Name", "ResourceClaimName", "ResourceClaimTemplateName"))
    detail = (
        "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        if number
        else "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
    )
    return [invalid(path, shown, detail)]


def scheduling_group(path: str, value: Document) -> list[str]:
    """Checks that the scheduling group has a valid object name."""
    place, name = f"{path}.podGroupName", value.get("podGroupName")
    if name is None:
        return [invalid(place, None, "must specify one of: `podGroupName`")]
    return [invalid(place, name, message) for message in dns_subdomain(name)]
