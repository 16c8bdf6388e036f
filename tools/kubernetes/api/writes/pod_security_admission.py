"""PodSecurity as a step of admission: of pods, of the templates of pods, and of namespaces."""

from __future__ import annotations

from ..policies.pod_security import (
    PRIVILEGED,
    PodSecurityPolicy,
    described,
    is_significant,
    pod_warnings,
    policy_of,
)
from ..policies.pod_security_checks import BASELINE, RESTRICTED
from ..store import Store
from ..types.api_documents import Document, RefusedError
from ..types.resources import BY_KIND, Kind
from .admission import NAMESPACES
from .evictions import PODS
from .refusals import refuse_invalid

_STRICTNESS = (PRIVILEGED, BASELINE, RESTRICTED)
# The kinds with a template of pods, and where it is.
_TEMPLATES: dict[Kind, tuple[str, ...]] = {
    BY_KIND[name]: path
    for name, path in {
        ("v1", "PodTemplate"): ("template",),
        ("v1", "ReplicationController"): ("spec", "template"),
        ("apps/v1", "ReplicaSet"): ("spec", "template"),
        ("apps/v1", "Deployment"): ("spec", "template"),
        ("apps/v1", "StatefulSet"): ("spec", "template"),
        ("apps/v1", "DaemonSet"): ("spec", "template"),
        ("batch/v1", "Job"): ("spec", "template"),
        ("batch/v1", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    }.items()
    if name in BY_KIND
}
TEMPLATED = tuple(_TEMPLATES)


def check_pod(store: Store, pod: Document, before: Document | None) -> list[str]:
    """Returns the warnings about a pod. Raises RefusedError with 403 if it is forbidden there."""
    policy = _policy(store, pod)
    if policy is None or (before is not None and not is_significant(pod, before)):
        return []
    found = policy.enforce.violations(pod["metadata"], pod["spec"])
    if found:
        name = pod["metadata"].get("name", "")
        message = (
            f'pods "{name}" is forbidden: violates PodSecurity "{policy.enforce}": '
            f"{described(found)}"
        )
        raise RefusedError(403, "Forbidden", message, {"name": name, "kind": PODS.plural})
    return _warnings(policy, pod)


def template_warnings(store: Store, kind: Kind, document: Document) -> list[str]:
    """Returns the warnings about the template of pods in an object."""
    policy = _policy(store, document)
    if policy is None or policy.warn.level == PRIVILEGED:
        return []
    template = document
    for part in _TEMPLATES[kind]:
        template = template.get(part) or {}
    return _warnings(policy, template) if template.get("spec") else []


def check_namespace_labels(store: Store, namespace: Document, before: Document | None) -> list[str]:
    """Returns the warnings about the pods of a namespace whose level changes. Raises RefusedError
    with 422 for labels that cannot be read.
    """
    policy = policy_of(namespace["metadata"].get("labels") or {})
    was = policy_of((before or {"metadata": {}})["metadata"].get("labels") or {})
    if policy.problems and policy.problems != was.problems:
        refuse_invalid(NAMESPACES, namespace, [*policy.problems])
    if before is None or policy.enforce == was.enforce or policy.enforce.level == PRIVILEGED:
        return []
    stricter = _STRICTNESS.index(policy.enforce.level) > _STRICTNESS.index(was.enforce.level)
    if policy.enforce.minor == was.enforce.minor and not stricter:
        return []
    name = namespace["metadata"]["name"]
    pods = (stored.document for stored in store.list(PODS, name))
    return [*pod_warnings(name, policy.enforce, pods)]


def _policy(store: Store, document: Document) -> PodSecurityPolicy | None:
    """Returns the policy of an object's namespace; None if it allows everything."""
    namespace = store.find(NAMESPACES, "", document["metadata"].get("namespace", ""))
    if namespace is None:
        return None
    policy = policy_of(namespace["metadata"].get("labels") or {})
    asks = policy.enforce.level != PRIVILEGED or policy.warn.level != PRIVILEGED
    return policy if asks else None


def _warnings(policy: PodSecurityPolicy, pod: Document) -> list[str]:
    found = policy.warn.violations(pod.get("metadata") or {}, pod["spec"])
    return [f'would violate PodSecurity "{policy.warn}": {described(found)}'] if found else []
