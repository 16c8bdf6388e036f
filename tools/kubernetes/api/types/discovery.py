"""Discovery documents: the versions, groups and resources that the server serves.

Clients such as kubectl read them before anything else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .api_documents import Document
from .catalog import CURRENT_CATALOG, Catalog
from .resources import COMPONENT_STATUSES, METRICS, REVIEWS, Kind

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_BUILD = {
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "",
    "goVersion": "",
    "compiler": "",
    "platform": "berth",
}


_EXTENSIONS = ("admissionregistration.k8s.io", "apiextensions.k8s.io")
_VERSION = re.compile(r"v(?P<major>\d+)(?:(?P<stability>alpha|beta)(?P<number>\d+))?")
_IN_ALL = ("Pod", "Service", "DaemonSet", "Job", "CronJob", "HorizontalPodAutoscaler")


def discovery(
    path: str, catalog: Catalog = CURRENT_CATALOG, more: Sequence[Kind] = ()
) -> Document | None:
    """Returns the document of a catalog's kinds, and of `more`, at a discovery path; None for every
    other path.
    """
    served = (*catalog.served, *more)
    groups = sorted({kind.group for kind in served if kind.group})
    match path.strip("/").split("/"):
        case ["version"]:
            version = catalog.release.version
            names = {"minor": str(version.minor), "gitVersion": version.release}
            return {"major": "1", **names, **_BUILD}
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            return {
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": [_group(name, served) for name in groups],
            }
        case ["apis", group] if group in groups:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, served)}
        case ["api", version]:
            return _resources("", version, served)
        case ["apis", group, version]:
            return _resources(group, version, served)
        case _:
            return None


def _group(name: str, served: Sequence[Kind]) -> Document:
    """Returns a group and its versions, the preferred one first."""
    versions = sorted({kind.version for kind in served if kind.group == name}, key=_preference)
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


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


def _resources(group: str, version: str, served: Sequence[Kind]) -> Document | None:
    kinds = [kind for kind in served if (kind.group, kind.version) == (group, version)]
    if not kinds:
        return None
    resources = [entry for kind in kinds for entry in _entries(kind)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": kinds[0].api_version,
        "resources": resources,
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
    return ["create"] if kind in REVIEWS else VERBS


def _entries(kind: Kind) -> list[Document]:
    """Returns the entries of a kind and of its subresources."""
    plain: Document = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _verbs(kind),
    }
    categories = _categories(kind)
    entries = [
        {
            **plain,
            "shortNames": list(kind.short),
            **({"categories": categories} if categories else {}),
        }
    ]

    def subresource(name: str, verbs: list[str], **other: str) -> None:
        entries.append(
            {**plain, "singularName": "", "name": f"{kind.plural}/{name}", "verbs": verbs, **other}
        )

    if kind.status:
        subresource("status", ["get", "patch", "update"])
    if kind.kind == "CertificateSigningRequest":
        subresource("approval", ["get", "patch", "update"])
    if kind.scale:
        subresource(
            "scale", ["get", "patch", "update"], group="autoscaling", version="v1", kind="Scale"
        )
    if kind.custom is not None:
        return entries
    if kind.kind == "Pod":
        subresource("binding", ["create"], kind="Binding")
        subresource("eviction", ["create"], group="policy", version="v1", kind="Eviction")
        subresource("resize", ["get", "patch", "update"])
    if kind.kind == "ServiceAccount":
        token = {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}
        subresource("token", ["create"], **token)
    return entries
