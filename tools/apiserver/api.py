"""What requests do to the store: creation with defaults, updates, deletion with grace, binding. No HTTP here."""

from __future__ import annotations

import random
import re
import uuid
from datetime import UTC, datetime
from typing import Any

from tools.apiserver.patch import patched
from tools.apiserver.resources import BY_PATH, Kind
from tools.apiserver.store import Document, Refused, Store

PODS, NAMESPACES = BY_PATH["", "v1", "pods"], BY_PATH["", "v1", "namespaces"]
EVENTS = BY_PATH["", "v1", "events"]
PRIORITY_CLASSES = BY_PATH["scheduling.k8s.io", "v1", "priorityclasses"]
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
NOT_READY = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Api:
    """Every method raises Refused with what the API would answer."""

    def __init__(self, store: Store) -> None:
        self.store = store
        for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
            self.create(NAMESPACES, "", {"metadata": {"name": name}, "status": {"phase": "Active"}})
        for name, value in (("system-cluster-critical", 2000000000), ("system-node-critical", 2000001000)):
            self.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})

    def create(self, kind: Kind, namespace: str, document: Document) -> Document:
        metadata = dict(document.get("metadata") or {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + "".join(random.choices(ALPHABET, k=5))
        self._check_identity(kind, namespace, document, metadata)
        if kind.namespaced:
            metadata["namespace"] = namespace
            self.store.get(NAMESPACES, "", namespace)
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": now()}
        if kind.status:
            metadata["generation"] = 1
        for field in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"):
            metadata.pop(field, None)
        made = {**document, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        return self.store.create(kind, self._admitted(made) if kind == PODS else made)

    @staticmethod
    def _check_identity(kind: Kind, namespace: str, document: Document, metadata: dict[str, Any]) -> None:
        if document.get("kind", kind.kind) != kind.kind:
            raise Refused(400, "BadRequest", f"kind: expected {kind.kind}, got {document['kind']}")
        if document.get("apiVersion", kind.api_version) != kind.api_version:
            raise Refused(400, "BadRequest", f"apiVersion: expected {kind.api_version}, got {document['apiVersion']}")
        name = metadata.get("name", "")
        if not isinstance(name, str) or NAME.fullmatch(name) is None:
            raise Refused(422, "Invalid", f"metadata.name: expected a lowercase RFC 1123 name, got {name!r}")
        if metadata.get("namespace", namespace) != namespace and kind.namespaced:
            raise Refused(400, "BadRequest", f"metadata.namespace: expected {namespace}, got {metadata['namespace']}")

    def _admitted(self, pod: Document) -> Document:
        """Defaults, the priority of the class, and the tolerations that every pod gets."""
        spec = {
            "schedulerName": "default-scheduler",
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            **(pod.get("spec") or {}),
        }
        if not spec.get("containers"):
            raise Refused(
                422, "Invalid", f'Pod "{pod["metadata"]["name"]}" is invalid: spec.containers: Required value'
            )
        class_name = spec.get("priorityClassName", "")
        if class_name:
            try:
                spec["priority"] = self.store.get(PRIORITY_CLASSES, "", class_name)["value"]
            except Refused:
                message = f"no PriorityClass with name {class_name} was found"
                raise Refused(403, "Forbidden", message) from None
        spec.setdefault("priority", 0)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
        tolerations = list(spec.get("tolerations") or ())
        for taint in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
            if not any(t.get("key") in (taint, None) and t.get("effect") in ("NoExecute", None) for t in tolerations):
                tolerations.append({"key": taint, **NOT_READY})
        spec["tolerations"] = tolerations
        return {**pod, "spec": spec, "status": {"phase": "Pending"}}

    def update(self, kind: Kind, namespace: str, name: str, document: Document, subresource: str) -> Document:
        """Replace an object, or only its status."""
        before = self.store.get(kind, namespace, name)
        if subresource == "status":
            wanted = (document.get("metadata") or {}).get("resourceVersion")
            metadata = {**before["metadata"], "resourceVersion": wanted} if wanted else before["metadata"]
            return self.store.update(kind, {**before, "metadata": metadata, "status": document.get("status", {})})
        metadata = {**(document.get("metadata") or {}), "name": name}
        for field in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "namespace"):
            metadata.pop(field, None)
            if field in before["metadata"]:
                metadata[field] = before["metadata"][field]
        after = {**document, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        if kind.status:
            after["status"] = before.get("status", {})
            changed = after.get("spec") != before.get("spec")
            metadata["generation"] = before["metadata"].get("generation", 1) + changed
        if kind == PODS and after["spec"].get("nodeName") != before["spec"].get("nodeName"):
            raise Refused(422, "Invalid", "spec.nodeName: a pod is bound through its binding subresource only")
        return self.store.update(kind, after)

    def patch(self, kind: Kind, namespace: str, name: str, patch: Any, how: str, subresource: str) -> Document:
        before = self.store.get(kind, namespace, name)
        after = patched(before, patch, how)
        if "resourceVersion" not in ((patch.get("metadata") or {}) if isinstance(patch, dict) else {}):
            after["metadata"] = {**after["metadata"], "resourceVersion": before["metadata"]["resourceVersion"]}
        return self.update(kind, namespace, name, after, subresource)

    def delete(self, kind: Kind, namespace: str, name: str, grace: int | None) -> Document:
        """Pods on a node get their grace first; everything else, and pods with a grace of 0, is removed at once."""
        before = self.store.get(kind, namespace, name)
        if kind == PODS and before["spec"].get("nodeName"):
            seconds = before["spec"].get("terminationGracePeriodSeconds", 30) if grace is None else grace
            if seconds > 0:
                if "deletionTimestamp" in before["metadata"]:
                    return before
                metadata = {**before["metadata"], "deletionTimestamp": now(), "deletionGracePeriodSeconds": seconds}
                return self.store.update(kind, {**before, "metadata": metadata})
        return self.store.delete(kind, namespace, name)

    def bind(self, namespace: str, name: str, binding: Document) -> None:
        """409 if the pod is bound, deleting or gated, or is another pod of that name."""
        pod = self.store.get(PODS, namespace, name)
        node = (binding.get("target") or {}).get("name", "")
        uid = (binding.get("metadata") or {}).get("uid", "")
        problem = ""
        if not node:
            raise Refused(422, "Invalid", "target.name: Required value")
        if uid and uid != pod["metadata"]["uid"]:
            problem = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {pod['metadata']['uid']}"
        elif "deletionTimestamp" in pod["metadata"]:
            problem = f"pod {name} is being deleted, cannot be assigned to a host"
        elif pod["spec"].get("nodeName"):
            problem = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        elif pod["spec"].get("schedulingGates"):
            problem = f"pod {name} has non-empty .spec.schedulingGates"
        if problem:
            message = f'Operation cannot be fulfilled on pods/binding "{name}": {problem}'
            raise Refused(409, "Conflict", message)
        others = [c for c in pod.get("status", {}).get("conditions", ()) if c["type"] != "PodScheduled"]
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now()}
        status = {**pod.get("status", {}), "conditions": [*others, scheduled]}
        self.store.update(PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status})
