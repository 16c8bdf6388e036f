"""The checks of the Pod Security Standards: what the levels baseline and restricted forbid a pod.

Mirrors the checks of Kubernetes 1.36, in their order and words. A check may have changed with a
version of the standards; each version of it holds from a minor version of Kubernetes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from ..rules.fields import printed_value
from ..types.api_documents import Document

BASELINE, RESTRICTED = "baseline", "restricted"
NEWEST = 35  # no check has changed since
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_OF_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
_PROFILES = ("RuntimeDefault", "Localhost")
_CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
)
_SYSCTLS = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    )
)
_SYSCTLS_27 = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_SE_LINUX = frozenset(("", "container_t", "container_init_t", "container_kvm_t"))
_VOLUMES = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
)
_RESTRICTED_VOLUMES = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
)


class Violation(NamedTuple):
    """What a check forbids. `detail` says where."""

    reason: str
    detail: str


Pod = tuple[Document, Document]  # its metadata and its spec
Check = Callable[[Pod], Violation | None]


def violations(level: str, minor: int, metadata: Document, spec: Document) -> list[Violation]:
    """Returns what a pod may not do at a level in a version of the standards."""
    found = (check((metadata, spec)) for check in _checks(level, min(minor, NEWEST)))
    return [violation for violation in found if violation is not None]


@lru_cache
def _checks(level: str, minor: int) -> tuple[Check, ...]:
    chosen = dict[str, Check]()
    for name, of_level, versions, overridden in _TABLE:
        begun = [check for first, check in versions if first <= minor]
        if begun and (of_level == BASELINE or level == RESTRICTED):
            chosen[name] = begun[-1]
            chosen.pop(overridden, None)
    return tuple(chosen.values())


def _containers(pod: Pod) -> Iterator[Document]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from pod[1].get(field) or ()


def _context(holder: Document) -> Document:
    return holder.get("securityContext") or {}


def _joined(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _plural(word: str, items: Sequence[object] | set[str]) -> str:
    return word if len(items) == 1 else f"{word}s"


def _named(names: Sequence[str], word: str = "container") -> str:
    return f"{_plural(word, names)} {_joined(names)}"


def _setters(of_pod: bool, names: Sequence[str]) -> list[str]:
    return [*(["pod"] if of_pod else []), *([_named(names)] if names else [])]


def _is_windows(pod: Pod) -> bool:
    return bool((pod[1].get("os") or {}).get("name") == "windows")


def _unless_windows(check: Check) -> Check:
    return lambda pod: None if _is_windows(pod) else check(pod)


def _unless_own_users(check: Check) -> Check:
    """Returns a check that leaves out pods with a user namespace of their own."""
    return lambda pod: None if pod[1].get("hostUsers") is False else check(pod)


def _app_armor(pod: Pod) -> Violation | None:
    def is_bad(holder: Document) -> bool:
        profile = _context(holder).get("appArmorProfile")
        if profile is None or profile.get("type") in _PROFILES:
            return False
        values.add(profile.get("type", ""))
        return True

    values = set[str]()
    of_pod = is_bad(pod[1])
    setters = _setters(of_pod, [each.get("name", "") for each in _containers(pod) if is_bad(each)])
    annotations = sorted(
        f"{key}={printed_value(value)}"
        for key, value in (pod[0].get("annotations") or {}).items()
        if key.startswith(_APP_ARMOR)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    if annotations:
        setters.append(_plural("annotation", annotations))
    if not setters:
        return None
    listed = [*sorted(values), *annotations]
    return Violation(
        _plural("forbidden AppArmor profile", listed),
        f"{' and '.join(setters)} must not set AppArmor profile type to {_joined(listed)}",
    )


def _capabilities(pod: Pod) -> Violation | None:
    bad, added = [], set[str]()
    for each in _containers(pod):
        others = _added(each) - _CAPABILITIES
        if others:
            bad.append(each.get("name", ""))
            added |= others
    if not bad:
        return None
    listed = _joined(sorted(added))
    detail = f"{_named(bad)} must not include {listed} in securityContext.capabilities.add"
    return Violation("non-default capabilities", detail)


def _added(container: Document) -> set[str]:
    return {*((_context(container).get("capabilities") or {}).get("add") or ())}


def _restricted_capabilities(pod: Pod) -> Violation | None:
    keeping, bad, added = [], [], set[str]()
    for each in _containers(pod):
        capabilities = _context(each).get("capabilities") or {}
        if "ALL" not in (capabilities.get("drop") or ()):
            keeping.append(each.get("name", ""))
        others = _added(each) - {"NET_BIND_SERVICE"}
        if others:
            bad.append(each.get("name", ""))
            added |= others
    details = []
    if keeping:
        details.append(f'{_named(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if bad:
        listed = _joined(sorted(added))
        details.append(
            f"{_named(bad)} must not include {listed} in securityContext.capabilities.add"
        )
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _host_namespaces(pod: Pod) -> Violation | None:
    fields = [f for f in ("hostNetwork", "hostPID", "hostIPC") if pod[1].get(f)]
    detail = ", ".join(f"{field}=true" for field in fields)
    return Violation("host namespaces", detail) if fields else None


def _host_paths(pod: Pod) -> Violation | None:
    volumes = pod[1].get("volumes") or ()
    names = [each.get("name", "") for each in volumes if each.get("hostPath") is not None]
    return Violation("hostPath volumes", _named(names, "volume")) if names else None


def _host_ports(pod: Pod) -> Violation | None:
    bad, ports = [], set[str]()
    for each in _containers(pod):
        of_host = {
            str(port["hostPort"]) for port in each.get("ports") or () if port.get("hostPort")
        }
        if of_host:
            bad.append(each.get("name", ""))
            ports |= of_host
    if not bad:
        return None
    uses = "uses" if len(bad) == 1 else "use"
    listed = ", ".join(sorted(ports))
    return Violation("hostPort", f"{_named(bad)} {uses} {_plural('hostPort', ports)} {listed}")


def _hosts_of_probes(pod: Pod) -> Violation | None:
    bad, hosts = set[str](), set[str]()
    for each in _containers(pod):
        lifecycle = each.get("lifecycle") or {}
        probes = ("livenessProbe", "readinessProbe", "startupProbe")
        handlers = [each.get(probe) for probe in probes]
        handlers += [lifecycle.get(hook) for hook in ("postStart", "preStop")]
        for handler in handlers:
            ways = [(handler or {}).get(way) or {} for way in ("httpGet", "tcpSocket")]
            named = {str(way["host"]) for way in ways if way.get("host")}
            if named:
                bad.add(each.get("name", ""))
                hosts |= named
    if not bad:
        return None
    uses = "uses" if len(bad) == 1 else "use"
    what = _plural("probe or lifecycle host", hosts)
    detail = f"{_named(sorted(bad))} {uses} {what} {_joined(sorted(hosts))}"
    return Violation("probe or lifecycle host", detail)


def _privileged(pod: Pod) -> Violation | None:
    bad = [each.get("name", "") for each in _containers(pod) if _context(each).get("privileged")]
    detail = f"{_named(bad)} must not set securityContext.privileged=true"
    return Violation("privileged", detail) if bad else None


def _proc_mount(pod: Pod) -> Violation | None:
    bad, mounts = [], set[str]()
    for each in _containers(pod):
        mount = _context(each).get("procMount")
        if mount not in (None, "Default"):
            bad.append(each.get("name", ""))
            mounts.add(mount)
    if not bad:
        return None
    listed = _joined(sorted(mounts))
    return Violation(
        "procMount", f"{_named(bad)} must not set securityContext.procMount to {listed}"
    )


def _se_linux(allowed: frozenset[str], pod: Pod) -> Violation | None:
    def is_bad(holder: Document) -> bool:
        options = _context(holder).get("seLinuxOptions") or {}
        own = {field: options.get(field) or "" for field in ("type", "user", "role")}
        if own["type"] not in allowed:
            types.add(own["type"])
        fields.update(field for field in ("user", "role") if own[field])
        return own["type"] not in allowed or bool(own["user"] or own["role"])

    types, fields = set[str](), set[str]()
    of_pod = is_bad(pod[1])
    setters = _setters(of_pod, [each.get("name", "") for each in _containers(pod) if is_bad(each)])
    if not setters:
        return None
    data = [f"{_plural('type', types)} {_joined(sorted(types))}"] if types else []
    data += [f"{field} may not be set" for field in ("user", "role") if field in fields]
    detail = (
        f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
    )
    return Violation("seLinuxOptions", detail)


def _seccomp_annotations(pod: Pod) -> Violation | None:
    keys = [_SECCOMP_OF_POD, *(_SECCOMP + each.get("name", "") for each in _containers(pod))]
    annotations = pod[0].get("annotations") or {}
    bad = {
        f"{key}={printed_value(annotations[key])}"
        for key in keys
        if key in annotations
        and annotations[key] not in ("runtime/default", "docker/default")
        and not annotations[key].startswith("localhost/")
    }
    if not bad:
        return None
    detail = f"forbidden {_plural('annotation', bad)} {', '.join(sorted(bad))}"
    return Violation("seccompProfile", detail)


def _seccomp(pod: Pod) -> Violation | None:
    """Forbids profiles other than the default and those of the node."""
    bad = [each.get("name", "") for each in _containers(pod) if not _has_good_profile(each, None)]
    setters = _setters(not _has_good_profile(pod[1], None), bad)
    if not setters:
        return None
    values = {
        profile.get("type", "")
        for holder in (pod[1], *_containers(pod))
        if (profile := _context(holder).get("seccompProfile")) is not None
        and profile.get("type") not in _PROFILES
    }
    detail = (
        f"{' and '.join(setters)} must not set securityContext.seccompProfile.type to "
        f"{_joined(sorted(values))}"
    )
    return Violation("seccompProfile", detail)


def _has_good_profile(holder: Document, missing: bool | None) -> bool:
    """Returns `missing`, or True for None, if the holder sets no profile."""
    profile = _context(holder).get("seccompProfile")
    if profile is None:
        return missing is not False
    return profile.get("type") in _PROFILES


def _restricted_seccomp(pod: Pod) -> Violation | None:
    explicit = _seccomp(pod)
    if explicit is not None:
        return explicit
    of_pod = _has_good_profile(pod[1], False)
    bad = [each.get("name", "") for each in _containers(pod) if not _has_good_profile(each, of_pod)]
    if not bad:
        return None
    detail = (
        f"pod or {_named(bad)} must set securityContext.seccompProfile.type to "
        '"RuntimeDefault" or "Localhost"'
    )
    return Violation("seccompProfile", detail)


def _sysctls(allowed: frozenset[str], pod: Pod) -> Violation | None:
    sysctls = _context(pod[1]).get("sysctls") or ()
    bad = [each.get("name", "") for each in sysctls if each.get("name", "") not in allowed]
    return Violation("forbidden sysctls", ", ".join(bad)) if bad else None


def _host_process(pod: Pod) -> Violation | None:
    def is_bad(holder: Document) -> bool:
        return bool((_context(holder).get("windowsOptions") or {}).get("hostProcess"))

    bad = [each.get("name", "") for each in _containers(pod) if is_bad(each)]
    setters = _setters(is_bad(pod[1]), bad)
    if not setters:
        return None
    detail = f"{' and '.join(setters)} must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", detail)


def _privilege_escalation(pod: Pod) -> Violation | None:
    bad = [
        each.get("name", "")
        for each in _containers(pod)
        if _context(each).get("allowPrivilegeEscalation") is not False
    ]
    if not bad:
        return None
    detail = f"{_named(bad)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail)


def _restricted_volumes(pod: Pod) -> Violation | None:
    bad, types = [], set[str]()
    for volume in pod[1].get("volumes") or ():
        if any(volume.get(source) is not None for source in _VOLUMES):
            continue
        bad.append(volume.get("name", ""))
        sources = (source for source in _RESTRICTED_VOLUMES if volume.get(source) is not None)
        types.add(next(sources, "unknown"))
    if not bad:
        return None
    uses = "uses" if len(bad) == 1 else "use"
    what = _plural("restricted volume type", types)
    detail = f"{_named(bad, 'volume')} {uses} {what} {_joined(sorted(types))}"
    return Violation("restricted volume types", detail)


def _non_root(pod: Pod) -> Violation | None:
    of_pod = _context(pod[1]).get("runAsNonRoot")
    own = {each.get("name", ""): _context(each).get("runAsNonRoot") for each in _containers(pod)}
    setters = _setters(of_pod is False, [name for name, value in own.items() if value is False])
    if setters:
        detail = f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false"
        return Violation("runAsNonRoot != true", detail)
    bad = [name for name, value in own.items() if value is None and not of_pod]
    detail = f"pod or {_named(bad)} must set securityContext.runAsNonRoot=true"
    return Violation("runAsNonRoot != true", detail) if bad else None


def _user(pod: Pod) -> Violation | None:
    bad = [
        each.get("name", "") for each in _containers(pod) if _context(each).get("runAsUser") == 0
    ]
    setters = _setters(_context(pod[1]).get("runAsUser") == 0, bad)
    detail = f"{' and '.join(setters)} must not set runAsUser=0"
    return Violation("runAsUser=0", detail) if setters else None


# The name, the level, the versions (the first minor version of each), and the baseline check that
# it replaces; in the order of the messages.
_TABLE: tuple[tuple[str, str, tuple[tuple[int, Check], ...], str], ...] = (
    ("appArmorProfile", BASELINE, ((0, _app_armor),), ""),
    ("capabilities_baseline", BASELINE, ((0, _capabilities),), ""),
    ("hostNamespaces", BASELINE, ((0, _host_namespaces),), ""),
    ("hostPathVolumes", BASELINE, ((0, _host_paths),), ""),
    ("hostPorts", BASELINE, ((0, _host_ports),), ""),
    ("hostProbesAndHostLifecycle", BASELINE, ((34, _hosts_of_probes),), ""),
    ("privileged", BASELINE, ((0, _privileged),), ""),
    ("procMount", BASELINE, ((0, _proc_mount), (35, _unless_own_users(_proc_mount))), ""),
    (
        "seLinuxOptions",
        BASELINE,
        (
            (0, partial(_se_linux, _SE_LINUX)),
            (31, partial(_se_linux, _SE_LINUX | {"container_engine_t"})),
        ),
        "",
    ),
    ("seccompProfile_baseline", BASELINE, ((0, _seccomp_annotations), (19, _seccomp)), ""),
    (
        "sysctls",
        BASELINE,
        (
            (0, partial(_sysctls, _SYSCTLS)),
            (27, partial(_sysctls, _SYSCTLS_27)),
            (29, partial(_sysctls, _SYSCTLS_29)),
            (32, partial(_sysctls, _SYSCTLS_32)),
        ),
        "",
    ),
    ("windowsHostProcess", BASELINE, ((0, _host_process),), ""),
    (
        "allowPrivilegeEscalation",
        RESTRICTED,
        ((8, _privilege_escalation), (25, _unless_windows(_privilege_escalation))),
        "",
    ),
    (
        "capabilities_restricted",
        RESTRICTED,
        ((22, _restricted_capabilities), (25, _unless_windows(_restricted_capabilities))),
        "capabilities_baseline",
    ),
    ("procMount_restricted", RESTRICTED, ((35, _proc_mount),), "procMount"),
    ("restrictedVolumes", RESTRICTED, ((0, _restricted_volumes),), "hostPathVolumes"),
    ("runAsNonRoot", RESTRICTED, ((0, _non_root), (35, _unless_own_users(_non_root))), ""),
    ("runAsUser", RESTRICTED, ((23, _user), (35, _unless_own_users(_user))), ""),
    (
        "seccompProfile_restricted",
        RESTRICTED,
        ((19, _restricted_seccomp), (25, _unless_windows(_restricted_seccomp))),
        "seccompProfile_baseline",
    ),
)
