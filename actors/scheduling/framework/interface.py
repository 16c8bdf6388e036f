"""The extension points, as the classes that a plugin derives from.

A plugin is one class that derives from every extension point it implements; the profile runner
finds out by `isinstance`. Filter and Score come in two forms. The vector form answers for all nodes
of a view at once and is what the in-tree plugins use. The scalar form (NodeFilterPlugin,
NodeScorePlugin) sees one NodeInfo at a time and is the easy way for a plugin of your own. Hooks
that may wait for I/O (PreBind, Bind) are `async def`; no other may wait. Everything that a plugin
names can be imported from here. Mirrors the framework's plugin interfaces.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec
import numpy as np
from berth.actors.scheduling.framework.cycle_state import CycleState
from berth.actors.scheduling.framework.events import (
    Registration,
)
from berth.actors.scheduling.framework.post_filter import FailedAttempt, PostFiltered
from berth.actors.scheduling.framework.questions import Steps
from berth.actors.scheduling.framework.status import (
    SUCCESS,
    Status,
)
from berth.actors.scheduling.framework.verdicts import PASSES, Verdicts
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.model.amounts import SAFE_AMOUNT
from berth.actors.scheduling.model.columns import Bools, Ints
from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import NodeView, Snapshot
from berth.config.fields import path_first

MAX_NODE_SCORE = 100
A = TypeVar("A")


class ApiHandle(Protocol):
    """The writes that a plugin may make, each one awaited by the binding cycle that runs it."""

    def bind(self, namespace: str, name: str, uid: str, node: str) -> Awaitable[Status]:
        """Bind a pod to a node; a refusal by the API server comes back as a Status with code
        ERROR.
        """
        ...


class WaitingPod(msgspec.Struct, frozen=True):
    """A pod that is reserved on a node and waits for Permit plugins to let it go on."""

    info: PodInfo
    node: str
    plugins: tuple[str, ...]


class WaitingPods(Protocol):
    """The pods that wait on Permit. A pod that its own Permit plugins made wait is here before the
    next pod's Permit.

    Answers hold at once: what is allowed or turned away here cannot be decided otherwise
    afterwards.
    """

    def each(self) -> tuple[WaitingPod, ...]:
        """In the order in which they began to wait."""
        ...

    def get(self, uid: str) -> WaitingPod | None: ...

    def allow(self, uid: str, plugin: str) -> bool:
        """Let a pod go on as far as `plugin` is concerned; true if nobody else holds it up."""
        ...

    def reject(self, uid: str, plugin: str, reason: str) -> bool:
        """Turn a waiting pod away: unschedulable by `plugin`; false if it does not wait."""
        ...

    def preempt(self, uid: str, plugin: str, reason: str) -> bool:
        """Stop a pod that waits or is in PreBind, for it to be tried again; false if it must be
        deleted instead.
        """
        ...


class Handle(Protocol):
    """What a plugin is given when it is made."""

    @property
    def api(self) -> ApiHandle: ...

    @property
    def waiting(self) -> WaitingPods: ...

    @property
    def feature_gates(self) -> Mapping[str, bool]:
        """Every gate of `berth.config.feature_gates` with its value."""
        ...


class PreFilterResult(msgspec.Struct, frozen=True):
    """The nodes that PreFilter restricts the pod to; None restricts nothing. Unknown names are
    allowed.
    """

    node_names: frozenset[str] | None = None


class Reads(enum.Enum):
    """What a plugin's PreFilter, Filter, PreScore and Score look at besides the pod's namespace,
    labels and spec.

    Answers that depend on one row alone are kept from pod to pod of one signature and renewed where
    that row changed; those that depend on all nodes are kept until a node changes.
    """

    NODE = "the row's node object"
    ROW = "the row's node object and the pods on it"
    NODES = "the node objects of all rows"
    CLUSTER = "anything else: other rows, other objects, the pod's name"


class Plugin(ABC):
    """The base of every plugin. `name` is the one used in the configuration.

    `reads` may say less than CLUSTER for the vector forms only; a plugin that looks at more than it
    says errs. `lookups` are the types of what it looks up in the snapshot's objects: a kind that no
    enabled plugin names is not followed, and to look it up raises UnlistedError.
    """

    name: ClassVar[str]
    reads: ClassVar[Reads] = Reads.CLUSTER
    lookups: ClassVar[tuple[type[HasMetadata], ...]] = ()

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        """`args` is pluginConfig's args as the user wrote them; raises ArgsError if they do not
        fit.
        """
        for field in args:
            if field not in ("apiVersion", "kind"):
                raise ArgsError(f"{field}: unknown field, {self.name} takes no arguments")
        self.handle = handle

    def events_to_register(self) -> Sequence[Registration]:
        """The events that may make a pod that this plugin rejected schedulable.

        A plugin that does not say is taken to wait for every event there is, one that says () for
        none.
        """
        return ()


class ArgsError(ValueError):
    """A plugin's arguments do not fit; the message starts with the path below `args`."""


def read_args(args: Mapping[str, Any], into: type[A]) -> A:
    """pluginConfig's args as a msgspec Struct, whose types and defaults are the rules; raises
    ArgsError.

    `apiVersion` and `kind`, which any args may carry, are left out.
    """
    try:
        return msgspec.convert(
            {name: args[name] for name in args if name not in ("apiVersion", "kind")}, into
        )
    except msgspec.ValidationError as invalid:
        raise ArgsError(path_first(invalid, into)) from None


class PreEnqueuePlugin(Plugin):
    @abstractmethod
    def pre_enqueue(self, pod: Pod) -> Status:
        """Anything but success keeps the pod out of the active queue."""


class QueueSortPlugin(Plugin):
    @abstractmethod
    def sort_key(self, info: PodInfo, enqueued_at: float) -> tuple[float, ...]:
        """Pods are handed out in ascending order of this key."""


class PreFilterPlugin(Plugin):
    @abstractmethod
    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        """A PreFilterResult or success goes on; SKIP goes on without this plugin's Filter; all else
        ends it.
        """


class FilterPlugin(Plugin):
    @abstractmethod
    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        """A verdict for every position of the view, or None if every node passes."""

    def passing(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Bools | None:
        """bool[nodes.size]: where `filter` lets the pod in, or None for everywhere; for who can
        tell that with less.
        """
        verdicts = self.filter(state, info, nodes)
        return None if verdicts is None else np.asarray(verdicts.codes == PASSES)


class NodeFilterPlugin(Plugin):
    @abstractmethod
    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        """The scalar form of Filter: a status for one node."""


class PostFilterPlugin(Plugin):
    @abstractmethod
    def post_filter(self, attempt: FailedAttempt) -> PostFiltered | Steps[PostFiltered]:
        """What to do for a pod that fits nowhere; success ends the search, all else lets the next
        plugin try.
        """


class PreScorePlugin(Plugin):
    @abstractmethod
    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        """SKIP goes on without this plugin's Score. `nodes` are the feasible ones."""


class ScorePlugin(Plugin):
    @abstractmethod
    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        """int64[nodes.size], each from 0 to MAX_NODE_SCORE, or any range if `normalize` brings it
        there.
        """

    def normalize(self, state: CycleState, info: PodInfo, scores: Ints) -> Ints:
        """Bring the raw scores of all feasible nodes into the range from 0 to MAX_NODE_SCORE."""
        return scores


class NodeScorePlugin(Plugin):
    @abstractmethod
    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        """The scalar form of Score: from 0 to MAX_NODE_SCORE, or any range if `normalize_scores`
        brings it there.
        """

    def normalize_scores(self, state: CycleState, info: PodInfo, scores: list[int]) -> list[int]:
        return scores


class ReservePlugin(Plugin):
    @abstractmethod
    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        """Set aside what the pod needs on the node."""

    @abstractmethod
    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        """Undo `reserve`; must do no harm if reserve never ran."""


class PermitPlugin(Plugin):
    @abstractmethod
    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        """A status, and for WAIT how many seconds to wait at most."""


class PreBindPlugin(Plugin):
    runs_in_parallel: ClassVar[bool] = False
    """Whether it may run at the same time as the neighbours in the order that say so too."""

    def pre_bind_pre_flight(self, state: CycleState, info: PodInfo, node: str) -> Status:
        """Whether `pre_bind` has something to do for this pod: success, or SKIP to leave it out.
        Must be quick.
        """
        return SUCCESS

    @abstractmethod
    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        """Prepare the node or the pod's volumes; may take long. It is cancelled if the pod is
        preempted.
        """


class BindPlugin(Plugin):
    @abstractmethod
    async def bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        """SKIP leaves the pod to the next bind plugin."""


class PostBindPlugin(Plugin):
    @abstractmethod
    def post_bind(self, state: CycleState, info: PodInfo, node: str) -> None: ...


def default_normalize(scores: Ints, *, reverse: bool) -> Ints:
    """Scale to 0..100 by the highest score; `reverse` turns the scale over. All zero: 0, or 100 if
    reversed.
    """
    highest = int(scores.max(initial=0))
    if highest == 0:
        return scores * 0 + MAX_NODE_SCORE if reverse else scores
    if highest <= SAFE_AMOUNT:
        scaled = MAX_NODE_SCORE * scores // highest
    else:
        scaled = (MAX_NODE_SCORE * scores.astype(object) // highest).astype(np.int64)
    return MAX_NODE_SCORE - scaled if reverse else scaled
