"""Prepares a new object before its defaults are set: selectors of jobs, finalizers of namespaces.

Mirrors PrepareForCreate of Kubernetes' strategies.
"""

from __future__ import annotations

from collections.abc import Callable

from ..types.api_documents import Document
from ..types.resources import BY_KIND, Kind
from .admission import NAMESPACES

JOBS = BY_KIND["batch/v1", "Job"]
UID_LABEL = "batch.kubernetes.io/controller-uid"
FINALIZER = "kubernetes"  # of a namespace: it waits for what is in it


def prepared_object(kind: Kind, document: Document) -> Document:
    """Returns a new object as Kubernetes' strategy for its kind prepares it."""
    prepare = _PREPARATIONS.get(kind)
    return document if prepare is None else prepare(document)


def _with_selector(job: Document) -> Document:
    """Returns a new job that selects pods by its uid, unless its selector is manual.

    Labels that the job has already stay as they are; if they differ, validation refuses the job.
    """
    spec = job.get("spec") or {}
    if spec.get("manualSelector"):
        return job
    name, uid = job["metadata"].get("name", ""), job["metadata"]["uid"]
    labels = {"job-name": name, "batch.kubernetes.io/job-name": name}
    labels |= {"controller-uid": uid, UID_LABEL: uid}
    template = spec.get("template") or {}
    metadata = template.get("metadata") or {}
    metadata = {**metadata, "labels": {**labels, **(metadata.get("labels") or {})}}
    selector = spec.get("selector") or {}
    selector = {**selector, "matchLabels": {UID_LABEL: uid, **(selector.get("matchLabels") or {})}}
    template = {**template, "metadata": metadata}
    return {**job, "spec": {**spec, "selector": selector, "template": template}}


def _with_namespace_finalizer(namespace: Document) -> Document:
    """Returns a new namespace with the finalizer that keeps it until it is empty."""
    spec = namespace.get("spec") or {}
    have = spec.get("finalizers") or ()
    return {**namespace, "spec": {**spec, "finalizers": [*{**dict.fromkeys(have), FINALIZER: 0}]}}


_PREPARATIONS: dict[Kind, Callable[[Document], Document]] = {
    JOBS: _with_selector,
    NAMESPACES: _with_namespace_finalizer,
}
