"""Discovery documents: the versions, groups and resources that the server serves.

Clients such as kubectl read them before anything else.
"""

from __future__ import annotations

from .resources import REVIEWS, SERVED, Kind
from .store import Document

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.2",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "",
    "goVersion": "",
    "compiler": "",
    "platform": "berth",
}


def discovery(path: str) -> Document | None:
    """Returns the document at a discovery path; None for every other path."""
    match path.strip("/").split("/"):
        case ["version"]:
            return VERSION
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            return {
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": [_group(name) for name in _groups()],
            }
        case ["apis", group] if group in _groups():
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group)}
        case ["api", version]:
            return _resources("", version)
        case ["apis", group, version]:
            return _resources(group, version)
        case _:
            return None


def _groups() -> list[str]:
    return sorted({kind.group for kind in SERVED if kind.group})


def _group(name: str) -> Document:
    """Returns a group and its versions, which sort by preference: v1, v1alpha2."""
    versions = sorted({kind.version for kind in SERVED if kind.group == name})
    served = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": served, "preferredVersion": served[0]}


def _resources(group: str, version: str) -> Document | None:
    served = [kind for kind in SERVED if (kind.group, kind.version) == (group, version)]
    if not served:
        return None
    resources = [entry for kind in served for entry in _entries(kind)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served[0].api_version,
        "resources": resources,
    }


def _categories(kind: Kind) -> list[str]:
    if kind.scale or kind.kind in ("Pod", "Service", "DaemonSet", "Job", "CronJob"):
        return ["all"]
    return ["api-extensions"] if kind.group == "admissionregistration.k8s.io" else []


def _entries(kind: Kind) -> list[Document]:
    """Returns the entries of a kind and of its subresources."""
    plain: Document = {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": ["create"] if kind in REVIEWS else VERBS,
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
    if kind.scale:
        subresource(
            "scale", ["get", "patch", "update"], group="autoscaling", version="v1", kind="Scale"
        )
    if kind.kind == "Pod":
        subresource("binding", ["create"], kind="Binding")
        subresource("eviction", ["create"], group="policy", version="v1", kind="Eviction")
        subresource("resize", ["get", "patch", "update"])
    if kind.kind == "ServiceAccount":
        token = {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}
        subresource("token", ["create"], **token)
    return entries
