"""Cluster events and queueing hints: they decide what makes a parked pod schedulable again.

A plugin registers the events that may help the pods that it rejected (EventsToRegister) and, for
each event, a hint function that looks at the object of the event. Mirrors the framework's
ClusterEvent, ActionType and QueueingHintFn.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from functools import cache

import msgspec

from ..kube.core import Pod


class Action(enum.IntFlag):
    """The kinds of change to an object. UPDATE is every update; ALL is any action."""

    ADD = 1
    DELETE = 1 << 1
    UPDATE_NODE_ALLOCATABLE = 1 << 2
    UPDATE_NODE_LABEL = 1 << 3
    UPDATE_NODE_TAINT = 1 << 4
    UPDATE_NODE_CONDITION = 1 << 5
    UPDATE_NODE_ANNOTATION = 1 << 6
    UPDATE_NODE_DECLARED_FEATURE = 1 << 7
    UPDATE_POD_LABEL = 1 << 8
    UPDATE_POD_SCALE_DOWN = 1 << 9
    UPDATE_POD_TOLERATION = 1 << 10
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 11
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 12
    UPDATE_OTHER = 1 << 13
    UPDATE = ((1 << 14) - 1) & ~0b11
    ALL = (1 << 14) - 1


class Resource(enum.StrEnum):
    """The kinds that scheduling reacts to, with their group unless it is core. POD includes
    ASSIGNED_POD and UNSCHEDULED_POD.

    ASSIGNED_POD is another pod that has a node. UNSCHEDULED_POD is the parked pod itself: changes
    of other pods without a node wake no pod. TARGET_POD is the parked pod, too, as Kubernetes 1.37
    calls it.
    """

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULED_POD = "UnschedulablePod"
    TARGET_POD = "TargetPod"
    NODE = "Node"
    NAMESPACE = "Namespace"
    SERVICE = "Service"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    DEVICE_TAINT_RULE = "resource.k8s.io/DeviceTaintRule"
    WILDCARD = "*"

    @property
    def kind(self) -> str:
        """The kind without the group."""
        return self.value.rpartition("/")[2]


# The kinds without their groups.
KINDS = {resource.kind: resource for resource in Resource}


class ClusterEvent(msgspec.Struct, frozen=True):
    """A resource and an action on it; `label` is the event's name in metrics and logs.

    The resource is the name of the kind, such as "Widget", if Resource does not have it. Its
    updates are UPDATE_OTHER.
    """

    resource: Resource | str
    action: Action
    label: str = ""

    def matches(self, happened: ClusterEvent) -> bool:
        """True if this registration covers an event that happened."""
        if self.resource is Resource.WILDCARD or happened.resource is Resource.WILDCARD:
            return True
        same = self.resource == happened.resource or happened.resource in _WITHIN.get(
            self.resource, ()
        )
        return same and bool(self.action & happened.action)

    def __str__(self) -> str:
        return self.label or _name(self.resource, self.action)


# The resources of events that a registration covers, too.
_WITHIN: Mapping[Resource | str, tuple[Resource, ...]] = {
    Resource.POD: (Resource.ASSIGNED_POD, Resource.UNSCHEDULED_POD),
    Resource.TARGET_POD: (Resource.UNSCHEDULED_POD,),
}


class PodNames(msgspec.Struct, frozen=True):
    """The resource names of pods without a node in events: of any such pod, of the one that is
    updated, and the label of one whose update comes with its arrival.
    """

    unscheduled: str = "UnschedulablePod"
    target: str = "UnschedulablePod"
    late: str = "UnschedulablePodUpdate"

    def updated(self, action: Action) -> ClusterEvent:
        """Returns the event of an update of the parked pod itself."""
        return ClusterEvent(Resource.UNSCHEDULED_POD, action, _name(self.target, action))


# Since Kubernetes 1.37: the change PodEventsSplit.
SPLIT_POD_NAMES = PodNames("UnscheduledPod", "TargetPod", "UnscheduledPodAdd")


@cache
def _name(resource: Resource | str, action: Action) -> str:
    """Returns the name in kube-scheduler's metrics, such as `storage.k8s.io/CSINodeAdd`. If there
    are several actions, it is the name of the first.
    """
    if action & Action.UPDATE_OTHER:
        return f"{resource}Update"
    first = next(iter(action), action)
    return f"{resource}{''.join(word.capitalize() for word in (first.name or '').split('_'))}"


class Hint(enum.Enum):
    """The answer of a hint function: leave the pod parked, or queue it."""

    SKIP = "Skip"
    QUEUE = "Queue"


# Takes the parked pod and the event's object before and after (None if there is none).
HintFunction = Callable[[Pod, object | None, object | None], Hint]


# The key of pods that every change concerns.
ALWAYS = ""


class Concerns(msgspec.Struct, frozen=True):
    """The rule for which pods a change concerns. The hint function is not called for other pods.

    A change concerns the pods for which `of_pod` has a key in common with `of_change`, and every
    pod if `of_change` returns None. The keys of a pod may depend only on its name, its uid and its
    spec, which do not change while it is parked.
    """

    of_pod: Callable[[Pod], Iterable[str]]
    of_change: Callable[[object | None, object | None], Iterable[str] | None]


class Registration(msgspec.Struct, frozen=True):
    """An event that a plugin waits for; without a hint function, all such events queue the pod.

    With `concerns`, the hint function is only called for the pods that a change concerns.
    """

    event: ClusterEvent
    hint: HintFunction | None = None
    concerns: Concerns | None = None


ASSIGNED_POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE, "AssignedPodDelete")
WILDCARD = ClusterEvent(Resource.WILDCARD, Action.ALL, "*")
UNSCHEDULABLE_TIMEOUT = ClusterEvent(Resource.WILDCARD, Action.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE = ClusterEvent(Resource.WILDCARD, Action.ALL, "ForceActivate")
