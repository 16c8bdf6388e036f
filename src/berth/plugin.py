"""Everything that a plugin of your own imports: `from berth.plugin import ...`.

The names in `__all__` are stable. Within a minor version, a plugin that imports only from here
and uses only what docs/plugins.md describes keeps working: names stay, methods keep their
parameters, statuses keep their meaning. Names are added in any version; a removal is listed in
docs/changelog.md a minor version ahead. All other modules below `berth` may change at any time.
The in-tree plugins import from here too.
"""

from __future__ import annotations

from berth.actors.scheduling.framework.cycle_state import PODS_TO_ACTIVATE, CycleState, StateKey
from berth.actors.scheduling.framework.events import (
    Action,
    ClusterEvent,
    Concerns,
    Hint,
    Registration,
    Resource,
)
from berth.actors.scheduling.framework.handle import (
    ApiHandle,
    Handle,
    ObjectKey,
    Objects,
    PluginCounter,
    PluginGauge,
    PluginHistogram,
    PluginScope,
    WaitingPod,
)
from berth.actors.scheduling.framework.interface import (
    MAX_NODE_SCORE,
    BindPlugin,
    DependsOn,
    FilterPlugin,
    NodeFilterPlugin,
    NodeScorePlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreBindPreFlightResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreparingPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    default_normalize,
)
from berth.actors.scheduling.framework.logger import Logger
from berth.actors.scheduling.framework.plugin_args import ArgsError, PluginArgs, read_args
from berth.actors.scheduling.framework.post_filter import (
    Deletion,
    FailedAttempt,
    Nomination,
    Patch,
    PostFiltered,
)
from berth.actors.scheduling.framework.questions import PAUSE, PreemptVictims, Steps, Victims
from berth.actors.scheduling.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    NotFound,
    Status,
    UserMessageError,
    error,
    fit_error,
    unresolvable,
    unschedulable,
)
from berth.actors.scheduling.framework.verdicts import Diagnosis, Verdicts
from berth.actors.scheduling.kube.apps import ReplicaSet, ReplicationController, StatefulSet
from berth.actors.scheduling.kube.core import Namespace, Node, NodeSelector, Pod, Service
from berth.actors.scheduling.kube.devices import DeviceClass, ResourceClaim, ResourceSlice
from berth.actors.scheduling.kube.kinds import WatchedKind
from berth.actors.scheduling.kube.labels import label_selector_matches
from berth.actors.scheduling.kube.meta import LabelSelector, ObjectMeta
from berth.actors.scheduling.kube.node_selector import (
    node_selector_matches,
    validate_node_selector_term,
)
from berth.actors.scheduling.kube.policy import PodDisruptionBudget
from berth.actors.scheduling.kube.quantity import milli_value as milli
from berth.actors.scheduling.kube.quantity import value as quantity
from berth.actors.scheduling.kube.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from berth.actors.scheduling.model.cluster_objects import UnlistedError
from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import NodeView, Snapshot
from berth.actors.scheduling.model.vectors import Bools, Ints
from berth.actors.scheduling.model.what_if import Supposition, supposing

__all__ = [
    "MAX_NODE_SCORE",
    "PAUSE",
    "PODS_TO_ACTIVATE",
    "SKIP",
    "SUCCESS",
    "Action",
    "ApiHandle",
    "ArgsError",
    "BindPlugin",
    "Bools",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "ClusterEvent",
    "Code",
    "Concerns",
    "CycleState",
    "Deletion",
    "DependsOn",
    "DeviceClass",
    "Diagnosis",
    "FailedAttempt",
    "FilterPlugin",
    "Handle",
    "Hint",
    "Ints",
    "LabelSelector",
    "Logger",
    "Namespace",
    "Node",
    "NodeFilterPlugin",
    "NodeInfo",
    "NodeScorePlugin",
    "NodeSelector",
    "NodeView",
    "Nomination",
    "NotFound",
    "ObjectKey",
    "ObjectMeta",
    "Objects",
    "Patch",
    "PermitPlugin",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Plugin",
    "PluginArgs",
    "PluginCounter",
    "PluginGauge",
    "PluginHistogram",
    "PluginScope",
    "Pod",
    "PodDisruptionBudget",
    "PodInfo",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFiltered",
    "PreBindPlugin",
    "PreBindPreFlightResult",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "PreemptVictims",
    "PreparingPlugin",
    "QueueSortPlugin",
    "Registration",
    "ReplicaSet",
    "ReplicationController",
    "ReservePlugin",
    "Resource",
    "ResourceClaim",
    "ResourceSlice",
    "ScorePlugin",
    "Service",
    "Snapshot",
    "StateKey",
    "StatefulSet",
    "Status",
    "Steps",
    "StorageClass",
    "Supposition",
    "UnlistedError",
    "UserMessageError",
    "Verdicts",
    "Victims",
    "VolumeAttachment",
    "WaitingPod",
    "WatchedKind",
    "default_normalize",
    "error",
    "fit_error",
    "label_selector_matches",
    "milli",
    "node_selector_matches",
    "quantity",
    "read_args",
    "supposing",
    "unresolvable",
    "unschedulable",
    "validate_node_selector_term",
]
