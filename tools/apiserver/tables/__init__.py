"""Objects as a meta.k8s.io/v1 Table: the rows and columns that `kubectl get` prints.

The columns of each kind are a tuple of Column; a kind without one has a name and an age. Every row
has a cell for each column, including the wide ones, since kubectl chooses by priority what to show.
The time is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ..conversion import served_form
from ..resources import Kind
from ..store import Document, RefusedError
from . import autoscaling, cluster, storage, workloads
from .column import AGE, NAME, Column
from .pods import PODS, row_conditions

COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    ("", "pods"): PODS,
    ("", "nodes"): cluster.NODES,
    ("", "namespaces"): cluster.NAMESPACES,
    ("", "services"): cluster.SERVICES,
    ("", "endpoints"): cluster.ENDPOINTS,
    ("", "limitranges"): cluster.DATED,
    ("", "resourcequotas"): cluster.RESOURCE_QUOTAS,
    ("", "events"): cluster.EVENTS,
    ("", "configmaps"): cluster.CONFIG_MAPS,
    ("", "secrets"): cluster.SECRETS,
    ("", "serviceaccounts"): cluster.SERVICE_ACCOUNTS,
    ("", "persistentvolumes"): storage.PERSISTENT_VOLUMES,
    ("", "persistentvolumeclaims"): storage.PERSISTENT_VOLUME_CLAIMS,
    ("", "replicationcontrollers"): workloads.REPLICATION_CONTROLLERS,
    ("apps", "deployments"): workloads.DEPLOYMENTS,
    ("apps", "replicasets"): workloads.REPLICA_SETS,
    ("apps", "statefulsets"): workloads.STATEFUL_SETS,
    ("apps", "daemonsets"): workloads.DAEMON_SETS,
    ("apps", "controllerrevisions"): workloads.CONTROLLER_REVISIONS,
    ("autoscaling", "horizontalpodautoscalers"): autoscaling.AUTOSCALERS,
    ("metrics.k8s.io", "nodes"): autoscaling.METRICS,
    ("metrics.k8s.io", "pods"): autoscaling.METRICS,
    ("batch", "jobs"): workloads.JOBS,
    ("batch", "cronjobs"): workloads.CRON_JOBS,
    ("events.k8s.io", "events"): cluster.EVENTS,
    ("coordination.k8s.io", "leases"): cluster.LEASES,
    ("policy", "poddisruptionbudgets"): workloads.POD_DISRUPTION_BUDGETS,
    ("scheduling.k8s.io", "priorityclasses"): workloads.PRIORITY_CLASSES,
    ("rbac.authorization.k8s.io", "roles"): cluster.DATED,
    ("rbac.authorization.k8s.io", "clusterroles"): cluster.DATED,
    ("rbac.authorization.k8s.io", "rolebindings"): cluster.ROLE_BINDINGS,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): cluster.ROLE_BINDINGS,
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): cluster.POLICIES,
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): cluster.POLICY_BINDINGS,
    ("storage.k8s.io", "storageclasses"): storage.STORAGE_CLASSES,
    ("storage.k8s.io", "csinodes"): storage.CSI_NODES,
    ("storage.k8s.io", "csidrivers"): storage.CSI_DRIVERS,
    ("storage.k8s.io", "csistoragecapacities"): storage.CSI_STORAGE_CAPACITIES,
    ("storage.k8s.io", "volumeattachments"): storage.VOLUME_ATTACHMENTS,
    ("node.k8s.io", "runtimeclasses"): workloads.RUNTIME_CLASSES,
    ("resource.k8s.io", "resourceclaims"): workloads.RESOURCE_CLAIMS,
    ("resource.k8s.io", "resourceslices"): workloads.RESOURCE_SLICES,
    ("resource.k8s.io", "resourceclasses"): workloads.RESOURCE_CLASSES,
    ("resource.k8s.io", "podschedulingcontexts"): workloads.POD_SCHEDULING_CONTEXTS,
}
# The columns of an older version, where they differ.
_OLDER: dict[tuple[str, str], tuple[Column, ...]] = {
    ("resource.k8s.io/v1alpha2", "resourceclaims"): workloads.NEGOTIATED_CLAIMS,
}


def table(
    kind: Kind,
    documents: Iterable[Document],
    *,
    revision: str,
    now: datetime,
    include: str = "Metadata",
    continue_: str = "",
    definitions: bool = True,
) -> Document:
    """Returns a Table of objects of one kind, read at a revision.

    `include` is the request's includeObject. It says what each row carries of its object: its
    Metadata, the whole Object or None of it. A watch sends one Table for each event, and needs the
    column `definitions` only in the first. Raises RefusedError with 400 for another `include`.
    """
    if include not in ("Metadata", "Object", "None"):
        raise RefusedError(
            400, "BadRequest", f"includeObject: expected Metadata, Object or None, got {include!r}"
        )
    columns = _OLDER.get((kind.api_version, kind.plural)) or COLUMNS.get(
        (kind.group, kind.plural), (NAME, AGE)
    )
    metadata = {"resourceVersion": revision} | ({"continue": continue_} if continue_ else {})
    return {
        "apiVersion": "meta.k8s.io/v1",
        "kind": "Table",
        "metadata": metadata,
        "columnDefinitions": [column.definition() for column in columns] if definitions else [],
        "rows": [_row(kind, columns, document, now, include) for document in documents],
    }


def _row(
    kind: Kind, columns: tuple[Column, ...], document: Document, now: datetime, include: str
) -> Document:
    row: Document = {"cells": [column.cell(document, now) for column in columns]}
    if columns is PODS and (conditions := row_conditions(document)):
        row["conditions"] = conditions
    if include == "Object":
        row["object"] = served_form(kind, document)
    elif include == "Metadata":
        metadata = document["metadata"]
        row["object"] = {
            "apiVersion": "meta.k8s.io/v1",
            "kind": "PartialObjectMetadata",
            "metadata": metadata,
        }
    return row
