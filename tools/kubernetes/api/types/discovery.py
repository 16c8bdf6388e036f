"""Discovery documents: the versions, groups and resources that the server serves.

Clients such as kubectl read them before anything else. They come in two forms: a document for each
group and version, and all groups in one (aggregated_discovery.py).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256

from .api_documents import Document
from .catalog import CURRENT_CATALOG, Catalog
from .resources import BINDINGS, COMPONENT_STATUSES, METRICS, REVIEWS, Kind

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
CHANGES = ["get", "patch", "update"]
CONNECTS = ["create", "get"]
PROXIES = ["create", "delete", "get", "patch", "update"]
# Groups in the order of Kubernetes' priorities; others follow by name.
GROUPS = (
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
)
_BUILD = {
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "berth",
}
_EXTENSIONS = (
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
)
_VERSION = re.compile(r"v(?P<major>\d+)(?:(?P<stability>alpha|beta)(?P<number>\d+))?")
_IN_ALL = ("Pod", "Service", "DaemonSet", "Job", "CronJob", "HorizontalPodAutoscaler")
# The verbs of subresources, and the group, version and kind of their bodies; "" for the kind's own.
_SUBRESOURCES: dict[str, tuple[list[str], tuple[str, str, str]]] = {
    "attach": (CONNECTS, ("", "", "PodAttachOptions")),
    "binding": (["create"], ("", "", "Binding")),
    "eviction": (["create"], ("policy", "v1", "Eviction")),
    "exec": (CONNECTS, ("", "", "PodExecOptions")),
    "finalize": (["update"], ("", "", "")),
    "log": (["get"], ("", "", "")),
    "portforward": (CONNECTS, ("", "", "PodPortForwardOptions")),
    "scale": (CHANGES, ("autoscaling", "v1", "Scale")),
    "token": (["create"], ("authentication.k8s.io", "v1", "TokenRequest")),
}
# The versions in which Kubernetes stores kinds that are served in later ones.
_STORED_VERSIONS = {
    "CustomResourceDefinition": "apiextensions.k8s.io/v1beta1",
    "MutatingAdmissionPolicy": "admissionregistration.k8s.io/v1beta1",
    "MutatingAdmissionPolicyBinding": "admissionregistration.k8s.io/v1beta1",
}
_PROXIED = "ProxyOptions"


@lru_cache(maxsize=128)
def discovery(
    path: str, catalog: Catalog = CURRENT_CATALOG, more: tuple[Kind, ...] = ()
) -> Document | None:
    """Returns the document of a catalog's kinds, and of `more`, at a discovery path; None for every
    other path.
    """
    served = (*catalog.served, *more)
    match path.strip("/").split("/"):
        case ["version"]:
            version = catalog.release.version
            minor = str(version.minor)
            return {
                "major": "1",
                "minor": minor,
                "emulationMajor": "1",
                "emulationMinor": minor,
                "minCompatibilityMajor": "1",
                "minCompatibilityMinor": str(version.minor - 1),
                "gitVersion": version.release,
                **_BUILD,
            }
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            groups = [_group(name, served) for name in groups_of(served) if name]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", group] if group and group in groups_of(served):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, served)}
        case ["api", version]:
            return _resources("", version, served)
        case ["apis", group, version]:
            return _resources(group, version, served)
        case _:
            return None


def groups_of(served: Sequence[Kind]) -> list[str]:
    """Returns the groups of these kinds, in the order in which Kubernetes lists them."""
    known = {group: place for place, group in enumerate(GROUPS)}
    return sorted({kind.group for kind in served}, key=lambda g: (known.get(g, len(known)), g))


def versions_of(group: str, served: Sequence[Kind]) -> list[str]:
    """Returns the versions of a group, the preferred one first."""
    return sorted({kind.version for kind in served if kind.group == group}, key=_preference)


def _preference(version: str) -> tuple[bool, bool, int, int, str]:
    """Sorts stable versions before beta and alpha ones, and the higher number first; after them
    come versions that are named in another way.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        return True, True, 0, 0, version
    stability = match["stability"] or ""
    number = int(match["number"] or 0)
    return stability == "alpha", stability != "", -int(match["major"]), -number, version


def _group(name: str, served: Sequence[Kind]) -> Document:
    entries = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for version in versions_of(name, served)
    ]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _resources(group: str, version: str, served: Sequence[Kind]) -> Document | None:
    kinds = [kind for kind in served if (kind.group, kind.version) == (group, version)]
    if not kinds:
        return None
    kinds.sort(key=lambda kind: kind.plural)
    return {
        "kind": "APIResourceList",
        **({"apiVersion": "v1"} if group else {}),  # as Kubernetes writes them
        "groupVersion": kinds[0].api_version,
        "resources": [entry for kind in kinds for entry in entries_of(kind)],
    }


def _categories(kind: Kind) -> list[str]:
    if kind.custom is not None:
        return [*kind.custom.categories]
    if kind.scale or kind.kind in _IN_ALL:
        return ["all"]
    return ["api-extensions"] if kind.group in _EXTENSIONS else []


def _verbs(kind: Kind) -> list[str]:
    if kind.custom is not None:
        return ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
    if kind in METRICS or kind is COMPONENT_STATUSES:
        return ["get", "list"]
    if kind in REVIEWS or kind is BINDINGS:
        return ["create"]
    if kind.kind == "Namespace":
        return [verb for verb in VERBS if verb != "deletecollection"]
    return VERBS


def entries_of(kind: Kind) -> list[Document]:
    """Returns the APIResources of a kind and of its subresources."""
    verbs, categories = _verbs(kind), _categories(kind)
    plain: Document = {"namespaced": kind.namespaced, "kind": kind.kind}
    entry = {"name": kind.plural, "singularName": kind.singular, **plain, "verbs": verbs}
    if kind.short:
        entry["shortNames"] = [*kind.short]
    if categories:
        entry["categories"] = categories
    if "watch" in verbs:
        entry["storageVersionHash"] = _storage_hash(kind)
    entries = [entry]
    for name in sorted(kind.subresources) if kind.custom is None else kind.subresources:
        of, (group, version, body) = _SUBRESOURCES.get(name, (CHANGES, ("", "", "")))
        if name == "proxy":
            of, body = PROXIES, f"{kind.kind}{_PROXIED}"
        sub: Document = {"name": f"{kind.plural}/{name}", "singularName": "", **plain, "verbs": of}
        if group:
            sub |= {"group": group, "version": version}
        if body:
            sub["kind"] = body
        entries.append(sub)
    return entries


def _storage_hash(kind: Kind) -> str:
    """Returns the hash of the form in which a kind is stored."""
    stored = kind.stored_as or kind
    version = stored.api_version if kind.custom is None else kind.custom.stored_version
    version = _STORED_VERSIONS.get(kind.kind, version) if kind.custom is None else version
    name = f"{version if '/' in version else f'/{version}'}/{kind.kind}"
    return base64.b64encode(sha256(name.encode()).digest()[:8]).decode()
