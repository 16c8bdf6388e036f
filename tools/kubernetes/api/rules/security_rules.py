"""Rules for security contexts, and for the fields that the pod's operating system does not have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from .fields import Document, forbidden, go_struct, invalid, required, too_long, unsupported
from .value_forms import relative_path

_MOST_PROFILE_BYTES = 4095
_MOST_CREDENTIAL_BYTES = 64 << 10
_MOST_DOMAIN, _MOST_USER = 255, 104
_NAMESPACES = (  # of a host, each with the sysctls that are in it
    ("hostNetwork", re.compile(r"net\..*")),
    (
        "hostIPC",
        re.compile(
            r"kernel\.(sem|shm(all|max|mni|_rmid_forced)?|msg(max|mnb|mni)?)|fs\.mqueue\..*"
        ),
    ),
)
_CONTEXT_IN_GO = (
    "Capabilities",
    "Privileged",
    "SELinuxOptions",
    "WindowsOptions",
    "RunAsUser",
    "RunAsGroup",
    "RunAsNonRoot",
    "ReadOnlyRootFilesystem",
    "AllowPrivilegeEscalation",
    "ProcMount",
    "SeccompProfile",
    "AppArmorProfile",
)
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_DNS_PART = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DOMAIN = re.compile(rf"[^\\/:*?\"<>|.][^\\/:*?\"<>|]{{0,14}}|{_DNS_PART}(?:\.{_DNS_PART})*")
_BAD_IN_USER = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_NOT_ON_WINDOWS = "cannot be set for a windows pod"
# of a pod: fields of its spec and of its security context that a Windows pod cannot have
_LINUX_OF_SPEC = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")
_LINUX_OF_POD = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
)
_LINUX_OF_CONTAINER = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)

Placed = tuple[str, Document]  # a container with its path


def security_context(path: str, value: Document) -> Iterator[str]:
    """Checks that a container which may not gain privileges is not privileged from the start."""
    if value.get("allowPrivilegeEscalation") is not False:
        return
    shown = go_struct(value, _CONTEXT_IN_GO)
    if value.get("capabilities") is not None:
        shown["Capabilities"] = go_struct(value["capabilities"], ("Add", "Drop"))
    rule = "cannot set `allowPrivilegeEscalation` to false and"
    if value.get("privileged"):
        yield invalid(path, shown, f"{rule} `privileged` to true")
    if "CAP_SYS_ADMIN" in ((value.get("capabilities") or {}).get("add") or ()):
        yield invalid(path, shown, f"{rule} `capabilities.Add` CAP_SYS_ADMIN")


def seccomp_profile(path: str, value: Document) -> list[str]:
    """Checks that a profile has a type, and a path only if the profile is a file of the host."""
    place, profile = f"{path}.localhostProfile", value.get("localhostProfile")
    problems = _profile_type(path, value, "seccompProfile")
    if value.get("type") != "Localhost":
        if profile is not None:
            shown = go_struct(value, ("Type", "LocalhostProfile"))
            problems.append(invalid(place, shown, "can only be set when seccomp type is Localhost"))
        return problems
    if profile is None:
        return [*problems, required(place, "must be set when seccomp type is Localhost")]
    return problems + relative_path(place, profile)


def app_armor_profile(path: str, value: Document) -> list[str]:
    """Checks that a profile has a type, and a name only if the profile is loaded on the host."""
    place, profile = f"{path}.localhostProfile", value.get("localhostProfile")
    problems = _profile_type(path, value, "appArmorProfile")
    if problems:
        return problems
    if value["type"] != "Localhost":
        rule = "can only be set when AppArmor type is Localhost"
        return [] if profile is None else [invalid(place, profile, rule)]
    if not profile:
        return [required(place, "must be set when AppArmor type is Localhost")]
    if profile.strip() != profile:
        problems.append(invalid(place, profile, "must not be padded with whitespace"))
    if len(profile.encode()) > _MOST_PROFILE_BYTES:
        problems.append(too_long(place, _MOST_PROFILE_BYTES))
    return problems


def _profile_type(path: str, value: Document, field: str) -> list[str]:
    type_ = value.get("type") or ""
    if not type_:
        return [required(f"{path}.type", f"type is required when {field} is set")]
    return [] if type_ in _PROFILES else [unsupported(f"{path}.type", type_, _PROFILES)]


def windows_options(path: str, value: Document) -> Iterator[str]:
    """Checks the credentials and the user of a container on Windows."""
    credential, user = value.get("gmsaCredentialSpec"), value.get("runAsUserName")
    if credential is not None:
        place = f"{path}.gmsaCredentialSpec"
        if not credential:
            yield invalid(place, "", "gmsaCredentialSpec cannot be an empty string")
        elif len(credential.encode()) > _MOST_CREDENTIAL_BYTES:
            yield invalid(place, credential, "gmsaCredentialSpec size must be under 64 KiB")
    if user is not None:
        place = f"{path}.runAsUserName"
        yield from (invalid(place, user, f"runAsUserName{why}") for why in _user_problems(user))


def _user_problems(name: str) -> Iterator[str]:
    """Yields the problems of the name of a Windows user, which may begin with a domain."""
    *domains, user = name.split("\\")
    if not name:
        yield " cannot be an empty string"
        return
    if re.search(r"[\x00-\x1f\x7f]", name):
        yield " cannot contain control characters"
        return
    if len(domains) > 1:
        yield " cannot contain more than one backslash"
        return
    if domains and len(domains[0]) > _MOST_DOMAIN:
        yield "'s Domain length must be under 256 characters"
    if domains and not _DOMAIN.fullmatch(domains[0]):
        yield "'s Domain doesn't match the NetBios nor the DNS format"
    if not user:
        yield "'s User cannot be empty"
    elif len(user) > _MOST_USER:
        yield f"'s User length must not be longer than {_MOST_USER} characters"
    if re.fullmatch("[. ]+", user):
        yield "'s User cannot contain only periods or spaces"
    if _BAD_IN_USER.search(user):
        yield """'s User cannot contain the following characters: "/\\:;|=,+*?<>@[]"""


def pod_security(path: str, spec: Document, containers: Sequence[Placed]) -> Iterator[str]:
    """Yields the problems of a pod's namespaces, sysctls, users and host name."""
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        place = f"{path}.securityContext.shareProcessNamespace"
        rule = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(place, value=True, detail=rule)
    yield from _host_sysctls(f"{path}.securityContext.sysctls", spec)
    yield from _host_process(path, spec, containers)
    yield from _host_users(path, spec, containers)
    yield from _host_name(path, spec)


def _host_sysctls(path: str, spec: Document) -> Iterator[str]:
    for i, each in enumerate((spec.get("securityContext") or {}).get("sysctls") or ()):
        name = each.get("name") or ""
        for field, names in _NAMESPACES:
            if spec.get(field) and names.fullmatch(name.replace("/", ".")):
                detail = f"may not be specified when '{field}' is true"
                yield invalid(f"{path}[{i}].name", name, detail)


def _host_users(path: str, spec: Document, containers: Sequence[Placed]) -> Iterator[str]:
    """Yields the problems of a pod in a user namespace, and of a pod that must be in one."""
    if spec.get("hostUsers") is False:
        own = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
        for field, name in own:
            if spec.get(field):
                yield forbidden(f"{path}.{name}", "when `hostUsers` is false")
        for place, container in containers:
            if container.get("volumeDevices"):
                yield forbidden(f"{place}.volumeDevices", "when `hostUsers` is false")
        return
    for place, container in containers:
        if (container.get("securityContext") or {}).get("procMount") == "Unmasked":
            rule = "`hostUsers` must be false to use `Unmasked`"
            yield invalid(f"{place}.securityContext.procMount", "Unmasked", rule)


def _host_name(path: str, spec: Document) -> Iterator[str]:
    place = f"{path}.hostnameOverride"
    if spec.get("hostnameOverride") is None:
        return
    for field in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(field):
            yield forbidden(place, f"may not be specified when {field} is true")


def _host_process(path: str, spec: Document, containers: Sequence[Placed]) -> Iterator[str]:
    """Yields the problems of Windows host processes: in a pod, all containers run on the host or
    none.
    """
    of_spec = _runs_on_host(spec)
    number = 0
    for place, container in containers:
        own = _runs_on_host(container)
        if own is not None and of_spec is not None and own != of_spec:
            was = str(of_spec).lower()
            rule = f"pod hostProcess value must be identical if both are specified, was {was}"
            yield invalid(f"{place}.securityContext.windowsOptions.hostProcess", own, rule)
        number += bool(of_spec if own is None else own)
    if not number:
        return
    if number != len(containers):
        rule = (
            "If pod contains any hostProcess containers then all containers "
            "must be HostProcess containers"
        )
        yield invalid(path, "", rule)
    if not spec.get("hostNetwork"):
        rule = "hostNetwork must be true if pod contains any hostProcess containers"
        yield invalid(f"{path}.hostNetwork", value=False, detail=rule)


def _runs_on_host(owner: Document) -> bool | None:
    options = (owner.get("securityContext") or {}).get("windowsOptions") or {}
    runs: bool | None = options.get("hostProcess")
    return runs


def operating_system(path: str, spec: Document, containers: Sequence[Placed]) -> Iterable[str]:
    """Returns the problems of fields that the pod's operating system does not have."""
    if spec.get("os") is None:
        return []
    name = spec["os"].get("name") or ""
    if not name:
        return [required(f"{path}.os.name")]
    if name not in ("linux", "windows"):
        return [unsupported(f"{path}.os", name, ("linux", "windows"))]
    if name == "windows":
        return _windows(path, spec, containers)
    return [
        forbidden(f"{at}.securityContext.windowsOptions", rule)
        for at, owner in ((path, spec), *containers)
        if (owner.get("securityContext") or {}).get("windowsOptions") is not None
        for rule in ("windows options cannot be set for a linux pod",)
    ]


def _windows(path: str, spec: Document, containers: Sequence[Placed]) -> Iterator[str]:
    for field in _LINUX_OF_SPEC:
        if spec.get(field) or (spec.get(field) is not None and field[:4] != "host"):
            yield forbidden(f"{path}.{field}", _NOT_ON_WINDOWS)
    if spec.get("hostUsers") is False:
        yield forbidden(f"{path}.hostUsers", _NOT_ON_WINDOWS)
    owners = ((path, spec, _LINUX_OF_POD), *((*each, _LINUX_OF_CONTAINER) for each in containers))
    for at, owner, fields in owners:
        own = owner.get("securityContext") or {}
        for field in fields:
            if own.get(field) is not None and own[field] != []:
                yield forbidden(f"{at}.securityContext.{field}", _NOT_ON_WINDOWS)
