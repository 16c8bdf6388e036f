"""Definitions of the kinds that a plugin looks up, for a cluster in which nobody defined them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from berth.actors.scheduling.kube.kinds import WatchedKind

from ...kubernetes.api.types.resources import BY_KIND, METRICS

Document = dict[str, Any]
DEFINITION = "CustomResourceDefinition"
# The API server asks for it in groups of the project Kubernetes.
APPROVED = {"api-approved.kubernetes.io": "unapproved, for a test"}
MEASURED = {(kind.api_version, kind.kind) for kind in METRICS}


def creatable(objects: Iterable[Document]) -> list[Document]:
    """Returns the objects that may be created: all but metrics, which an API server asks for."""
    return [each for each in objects if (each.get("apiVersion"), each.get("kind")) not in MEASURED]


def definitions_of(kinds: Iterable[WatchedKind], objects: Sequence[Document]) -> list[Document]:
    """Returns a definition for each of the kinds of which there are objects, unless one is among
    them. It keeps all fields; the kind has namespaces if an object names one.
    """
    defined = {
        each.get("spec", {}).get("names", {}).get("kind")
        for each in objects
        if each.get("kind") == DEFINITION
    }
    made = []
    for kind in kinds:
        place = kind.api_version, kind.kind
        own = [each for each in objects if (each.get("apiVersion"), each.get("kind")) == place]
        if own and place not in BY_KIND and kind.kind not in defined:
            namespaced = any("namespace" in each.get("metadata", {}) for each in own)
            made.append(_definition(kind, "Namespaced" if namespaced else "Cluster"))
    return made


def _definition(kind: WatchedKind, scope: str) -> Document:
    group, _, version = kind.api_version.rpartition("/")
    plural = kind.path.rpartition("/")[2]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": DEFINITION,
        "metadata": {"name": f"{plural}.{group}", "annotations": APPROVED},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": kind.kind},
            "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
        },
    }
