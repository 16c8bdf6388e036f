"""PodGroup of scheduling.x-k8s.io/v1alpha1, as far as the plugin reads it."""

from __future__ import annotations

import msgspec

from berth.plugin import ObjectMeta, Pod, WatchedKind

API_VERSION = "scheduling.x-k8s.io/v1alpha1"
LABEL = "scheduling.x-k8s.io/pod-group"

GroupName = tuple[str, str]  # the namespace and the name


class PodGroupSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`min_member` pods run together, and wait for each other so many seconds at most."""

    min_member: int = 1
    schedule_timeout_seconds: int | None = None


class PodGroup(msgspec.Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: PodGroupSpec = PodGroupSpec()


POD_GROUPS = WatchedKind(API_VERSION, "PodGroup", f"/apis/{API_VERSION}/podgroups", PodGroup)


def group_of(pod: Pod) -> GroupName | None:
    """Returns the group that a pod is a member of, None for a pod alone."""
    name = pod.metadata.labels.get(LABEL)
    return (pod.metadata.namespace, name) if name else None
