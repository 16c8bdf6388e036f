"""Objects as a meta.k8s.io/v1 Table: the rows and columns that `kubectl get` prints.

The columns of each kind are a tuple of Column; a kind without one has a name and an age. Every row
has a cell for each column, including the wide ones, since kubectl chooses by priority what to show.
The time is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ..rules.fields import invalid
from ..types.api_documents import Document, RefusedError
from ..types.conversion import served_form
from ..types.resources import Kind
from . import (
    autoscaler_columns,
    cluster_columns,
    extension_columns,
    network_columns,
    storage_columns,
    workload_columns,
)
from .column import AGE, NAME, Column
from .pod_columns import PODS, row_conditions

COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    ("", "pods"): PODS,
    ("", "nodes"): cluster_columns.NODES,
    ("", "namespaces"): cluster_columns.NAMESPACES,
    ("", "services"): cluster_columns.SERVICES,
    ("", "endpoints"): cluster_columns.ENDPOINTS,
    ("", "limitranges"): cluster_columns.DATED,
    ("", "resourcequotas"): cluster_columns.RESOURCE_QUOTAS,
    ("", "events"): cluster_columns.EVENTS,
    ("", "configmaps"): cluster_columns.CONFIG_MAPS,
    ("", "secrets"): cluster_columns.SECRETS,
    ("", "serviceaccounts"): cluster_columns.SERVICE_ACCOUNTS,
    ("", "persistentvolumes"): storage_columns.PERSISTENT_VOLUMES,
    ("", "persistentvolumeclaims"): storage_columns.PERSISTENT_VOLUME_CLAIMS,
    ("", "replicationcontrollers"): workload_columns.REPLICATION_CONTROLLERS,
    ("", "podtemplates"): workload_columns.POD_TEMPLATES,
    ("apps", "deployments"): workload_columns.DEPLOYMENTS,
    ("apps", "replicasets"): workload_columns.REPLICA_SETS,
    ("apps", "statefulsets"): workload_columns.STATEFUL_SETS,
    ("apps", "daemonsets"): workload_columns.DAEMON_SETS,
    ("apps", "controllerrevisions"): workload_columns.CONTROLLER_REVISIONS,
    ("autoscaling", "horizontalpodautoscalers"): autoscaler_columns.AUTOSCALERS,
    ("metrics.k8s.io", "nodes"): autoscaler_columns.METRICS,
    ("metrics.k8s.io", "pods"): autoscaler_columns.METRICS,
    ("batch", "jobs"): workload_columns.JOBS,
    ("batch", "cronjobs"): workload_columns.CRON_JOBS,
    ("events.k8s.io", "events"): cluster_columns.EVENTS,
    ("coordination.k8s.io", "leases"): cluster_columns.LEASES,
    ("policy", "poddisruptionbudgets"): workload_columns.POD_DISRUPTION_BUDGETS,
    ("scheduling.k8s.io", "priorityclasses"): workload_columns.PRIORITY_CLASSES,
    ("rbac.authorization.k8s.io", "roles"): cluster_columns.DATED,
    ("rbac.authorization.k8s.io", "clusterroles"): cluster_columns.DATED,
    ("rbac.authorization.k8s.io", "rolebindings"): cluster_columns.ROLE_BINDINGS,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): cluster_columns.ROLE_BINDINGS,
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): cluster_columns.POLICIES,
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
    ): cluster_columns.POLICY_BINDINGS,
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicies",
    ): cluster_columns.MUTATING_POLICIES,
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings",
    ): cluster_columns.POLICY_BINDINGS,
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
    ): extension_columns.WEBHOOKS,
    (
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
    ): extension_columns.WEBHOOKS,
    ("apiregistration.k8s.io", "apiservices"): extension_columns.API_SERVICES,
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
    ): extension_columns.CERTIFICATE_REQUESTS,
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): extension_columns.FLOW_SCHEMAS,
    (
        "flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations",
    ): extension_columns.PRIORITY_LEVELS,
    ("", "componentstatuses"): extension_columns.COMPONENTS,
    ("networking.k8s.io", "ingresses"): network_columns.INGRESSES,
    ("networking.k8s.io", "ingressclasses"): network_columns.INGRESS_CLASSES,
    ("networking.k8s.io", "networkpolicies"): network_columns.NETWORK_POLICIES,
    ("networking.k8s.io", "servicecidrs"): network_columns.SERVICE_RANGES,
    ("networking.k8s.io", "ipaddresses"): network_columns.ADDRESSES,
    ("discovery.k8s.io", "endpointslices"): network_columns.ENDPOINT_SLICES,
    ("storage.k8s.io", "volumeattributesclasses"): storage_columns.VOLUME_ATTRIBUTES_CLASSES,
    ("storage.k8s.io", "storageclasses"): storage_columns.STORAGE_CLASSES,
    ("storage.k8s.io", "csinodes"): storage_columns.CSI_NODES,
    ("storage.k8s.io", "csidrivers"): storage_columns.CSI_DRIVERS,
    ("storage.k8s.io", "csistoragecapacities"): storage_columns.CSI_STORAGE_CAPACITIES,
    ("storage.k8s.io", "volumeattachments"): storage_columns.VOLUME_ATTACHMENTS,
    ("autoscaling", "scales"): workload_columns.SCALES,
    ("scheduling.k8s.io", "podgroups"): workload_columns.POD_GROUPS,
    ("apiextensions.k8s.io", "customresourcedefinitions"): cluster_columns.DEFINITIONS,
    ("node.k8s.io", "runtimeclasses"): workload_columns.RUNTIME_CLASSES,
    ("resource.k8s.io", "resourceclaims"): workload_columns.RESOURCE_CLAIMS,
    ("resource.k8s.io", "resourceslices"): workload_columns.RESOURCE_SLICES,
    ("resource.k8s.io", "devicetaintrules"): workload_columns.DEVICE_TAINT_RULES,
    ("resource.k8s.io", "resourceclasses"): workload_columns.RESOURCE_CLASSES,
    ("resource.k8s.io", "podschedulingcontexts"): workload_columns.POD_SCHEDULING_CONTEXTS,
}
# The columns of an older version, where they differ.
_OLDER: dict[tuple[str, str], tuple[Column, ...]] = {
    ("resource.k8s.io/v1alpha2", "resourceclaims"): workload_columns.NEGOTIATED_CLAIMS,
}


def table(
    kind: Kind,
    documents: Iterable[Document],
    *,
    revision: str,
    now: datetime,
    include: str = "Metadata",
    metadata: Document | None = None,
    definitions: bool = True,
) -> Document:
    """Returns a Table of objects of one kind, read at a revision.

    `include` is the request's includeObject. It says what each row carries of its object: its
    Metadata, the whole Object or None of it. A watch sends one Table for each event, and needs the
    column `definitions` only in the first. `metadata` is that of a list in pages. Raises
    RefusedError with 400 for another `include`.
    """
    if include not in ("Metadata", "Object", "None"):
        why = "must be 'Metadata', 'Object', 'None', or empty"
        problem = invalid("includeObject", include, why)
        raise RefusedError(400, "BadRequest", f"Unable to convert to Table as requested: {problem}")
    columns = _columns_of(kind)
    return {
        "apiVersion": "meta.k8s.io/v1",
        "kind": "Table",
        "metadata": metadata or {"resourceVersion": revision},
        "columnDefinitions": [column.definition() for column in columns] if definitions else None,
        "rows": [_row(kind, columns, document, now, include) for document in documents],
    }


def _columns_of(kind: Kind) -> tuple[Column, ...]:
    if kind.custom is not None:
        from .printer_columns import columns_of  # most stores have no custom kinds

        return columns_of(kind)
    return _OLDER.get((kind.api_version, kind.plural)) or COLUMNS.get(
        (kind.group, kind.plural), (NAME, AGE)
    )


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
    else:
        row["object"] = None
    return row
