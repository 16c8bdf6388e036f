"""Discovery in one document: an APIGroupDiscoveryList of apidiscovery.k8s.io/v2.

kubectl and client-go ask for it first, at /api and at /apis.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from .api_documents import Document
from .catalog import Catalog
from .discovery import entries_of, groups_of, versions_of
from .resources import Kind

MEDIA_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@lru_cache(maxsize=16)
def aggregated_discovery(
    path: str, catalog: Catalog, more: tuple[Kind, ...] = ()
) -> Document | None:
    """Returns all groups and their kinds: at /api the core group, at /apis the others; None for
    every other path.
    """
    if path not in ("/api", "/apis"):
        return None
    served = (*catalog.served, *more)
    groups = [group for group in groups_of(served) if bool(group) == (path == "/apis")]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_group(group, served) for group in groups],
    }


def _group(group: str, served: Sequence[Kind]) -> Document:
    versions = []
    for version in versions_of(group, served):
        kinds = [kind for kind in served if (kind.group, kind.version) == (group, version)]
        resources = [_resource(kind) for kind in sorted(kinds, key=lambda kind: kind.plural)]
        versions.append({"version": version, "resources": resources, "freshness": "Current"})
    return {"metadata": {"name": group} if group else {}, "versions": versions}


def _resource(kind: Kind) -> Document:
    entry, *below = entries_of(kind)
    resource: Document = {
        "resource": entry["name"],
        "responseKind": _kind_of(entry),
        "scope": "Namespaced" if entry["namespaced"] else "Cluster",
        "singularResource": entry["singularName"],
        "verbs": entry["verbs"],
    }
    resource |= {name: entry[name] for name in ("shortNames", "categories") if name in entry}
    if below:
        resource["subresources"] = [
            {
                "subresource": sub["name"].partition("/")[2],
                "responseKind": _kind_of(sub),
                "verbs": sub["verbs"],
            }
            for sub in below
        ]
    return resource


def _kind_of(entry: Document) -> dict[str, Any]:
    """Returns the kind of an answer. Group and version are "" if they are those of the path."""
    return {name: entry.get(name, "") for name in ("group", "version", "kind")}
