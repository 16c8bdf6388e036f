"""The extension points, as the classes that a plugin derives from.

A plugin is one class that derives from every extension point it implements; the profile runner
checks with `isinstance`. Filter and Score come in two forms. The vector form answers for all nodes
of a view at once; the in-tree plugins use it. The scalar form (NodeFilterPlugin, NodeScorePlugin)
gets one NodeInfo at a time and is easier to write. Hooks that may wait for I/O (PreBind, Bind) are
`async def`; no other hook may wait. Plugin authors import all of this from berth.plugin. Mirrors
the framework's plugin interfaces.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from ..kube.core import Pod
from ..kube.kinds import WatchedKind
from ..kube.meta import HasMetadata
from ..model.amounts import SAFE_AMOUNT
from ..model.node_info import NodeInfo
from ..model.pod_info import PodInfo
from ..model.snapshot import NodeView, Snapshot
from ..model.vectors import Bools, Ints
from .breaker import Breaker
from .cycle_state import CycleState
from .events import Registration
from .handle import Handle, PluginScope
from .plugin_args import ArgsError
from .post_filter import FailedAttempt, PostFiltered
from .questions import Steps
from .status import SUCCESS, Status
from .verdicts import PASSES, Verdicts

MAX_NODE_SCORE = 100


class PreFilterResult(msgspec.Struct, frozen=True):
    """The nodes to which PreFilter restricts the pod; None restricts nothing. Unknown names are
    allowed.

    With `passes_all` the plugin's Filter is left out, because it would pass every node, whatever
    pods run there. A plugin returns SKIP instead if the pod does not concern it at all.
    """

    node_names: frozenset[str] | None = None
    passes_all: bool = False


class DependsOn(enum.Enum):
    """The data that a plugin's answers about a node depend on.

    berth keeps the answers for one pod, and reuses them for the next pods of the same template
    until that data changes. An answer may always depend on the pod's namespace, labels, annotations
    and spec (without the names of its claims). It may also depend on the objects of the kinds in
    `lookups`: when one of these objects changes, all kept answers are dropped.
    """

    NODE = "the node object"
    NODE_AND_PODS = "the node object and the pods on that node"
    ALL_NODES = "the objects of all nodes"
    # The plugin is called for every pod that uses claims or disks. For all other pods, its
    # PreFilter must return SKIP, and it must give all nodes the same score.
    CLAIMS = "the node object, the pods on that node, and the names of the pod's claims"
    # The plugin is called for every pod.
    CLUSTER = "anything else: pods on other nodes, other objects, the pod's name"


class Plugin(ABC):
    """The base of every plugin. `name` is the plugin's name in the configuration.

    `depends_on` declares the data that the answers of PreFilter, Filter, PreScore and Score depend
    on. If they depend on more than that, berth decides with outdated answers. It has no effect on
    plugins in the scalar form, which are called for every pod. `lookups` lists the kinds of object
    that the plugin looks up; a kind that berth does not know is declared by a WatchedKind. Looking
    up a kind that no enabled plugin lists raises UnlistedError. `__init__` sets both where they
    depend on the arguments or on feature gates. `args_type` is the type of the arguments, by which
    `berth config` checks, completes and documents them.

    With `only_own_values`, PreFilter and Filter look only at those requests, host ports and disks
    of other pods that are of a resource, port or disk of the pod itself. What-if questions then
    count no others.

    A plugin that takes care of claims of another kind than ResourceClaim names it in `claim_kinds`:
    DynamicResources then leaves such claims in a pod's spec.resourceClaims to this plugin.
    `neighbours` are all plugins of the profile, once they are made.

    A plugin that fails again and again is switched off for a while: by default its pods fail. With
    `may_be_left_out`, it is not asked instead, and pods are placed without it. `breaker` is set by
    the scheduler.
    """

    name: ClassVar[str]
    args_type: ClassVar[type[msgspec.Struct] | None] = None
    depends_on: DependsOn = DependsOn.CLUSTER
    lookups: tuple[type[HasMetadata] | WatchedKind, ...] = ()
    claim_kinds: ClassVar[tuple[WatchedKind, ...]] = ()
    only_own_values: ClassVar[bool] = False
    neighbours: tuple[Plugin, ...] = ()
    may_be_left_out: ClassVar[bool] = False
    breaker: Breaker | None = None

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        """Makes the plugin. `args` is pluginConfig's args as the user wrote them. Raises ArgsError
        if they are invalid.
        """
        self.refuse_args(args)
        self.handle = handle

    @classmethod
    def refuse_args(cls, args: Mapping[str, Any]) -> None:
        """Raises ArgsError if there are arguments."""
        for field in args:
            if field not in ("apiVersion", "kind"):
                raise ArgsError(f"{field}: unknown field, {cls.name} takes no arguments")

    async def start(self, scope: PluginScope) -> None:  # noqa: B027 - a plugin need not have one
        """Begins the plugin's life: the objects are listed, and no pod is decided about yet.

        It starts the plugin's tasks with `scope`. If it raises, its tasks end, and it is called
        again after a backoff; pods are scheduled meanwhile.
        """

    async def close(self) -> None:  # noqa: B027 - nor an end of it
        """Ends the plugin's life: its tasks have ended, the process stops, or the plugin is no
        longer in use. The last attempts that began with it may still be under way.
        """

    def events_to_register(self) -> Sequence[Registration]:
        """Returns the events that may make a pod schedulable that this plugin rejected.

        A plugin that does not override this method waits for every event. A plugin that returns ()
        waits for none.
        """
        return ()


class PreEnqueuePlugin(Plugin):
    @abstractmethod
    def pre_enqueue(self, pod: Pod) -> Status:
        """Returns success to admit the pod to the active queue; any other status keeps it out."""


class QueueSortPlugin(Plugin):
    @abstractmethod
    def sort_key(self, info: PodInfo, enqueued_at: float) -> Any:
        """Returns the key by which the active queue hands out pods, in ascending order: a value
        that `<` compares with the other pods' keys. Tuples of numbers are compared fastest.
        """


class PreFilterPlugin(Plugin):
    @abstractmethod
    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        """Looks at the pod before any node. The attempt goes on after success, a PreFilterResult,
        or SKIP, which leaves out this plugin's Filter. Any other status ends it.
        """


class PreparingPlugin(PreFilterPlugin):
    """A plugin that keeps what it reads of the cluster, and may have much to read after a change.
    It reads in parts before PreFilter, so that other tasks of the process get their turns.
    """

    @abstractmethod
    def prepares_for(self, info: PodInfo) -> bool:
        """True if `prepare` may have something to do for the pod."""

    @abstractmethod
    def prepare(self, info: PodInfo, snapshot: Snapshot) -> Steps[Status]:
        """Updates what the other methods read, and yields PAUSE from time to time. Any status but
        success ends the attempt as an error. The other methods must also work without this call.
        """


class FilterPlugin(Plugin):
    """A filter in the vector form. With `only_feasible`, it is not asked about nodes that earlier
    filters rejected, where its verdict does not count. Set it if verdicts are costly, or if the
    plugin remembers which nodes it rejected.
    """

    only_feasible: ClassVar[bool] = False

    @abstractmethod
    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        """Returns a verdict for every position of the view, or None if every node passes."""

    def passing(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Bools | None:
        """Returns bool[nodes.size]: True where `filter` accepts the node; None if every node
        passes. Override it if that is cheaper to compute than verdicts.
        """
        verdicts = self.filter(state, info, nodes)
        return None if verdicts is None else np.asarray(verdicts.codes == PASSES)


class NodeFilterPlugin(Plugin):
    @abstractmethod
    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        """Returns a status for one node: the scalar form of Filter."""


class PostFilterPlugin(Plugin):
    @abstractmethod
    def post_filter(self, attempt: FailedAttempt) -> PostFiltered | Steps[PostFiltered]:
        """Tries to make room for a pod that fits on no node. Success ends the search; after any
        other status the next plugin tries.
        """


class PreScorePlugin(Plugin):
    @abstractmethod
    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        """Prepares Score; `nodes` are the feasible nodes. SKIP leaves out this plugin's Score."""


class ScorePlugin(Plugin):
    @abstractmethod
    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        """Returns int64[nodes.size], each from 0 to MAX_NODE_SCORE, or in any range that
        `normalize` maps to it.
        """

    def normalize(self, state: CycleState, info: PodInfo, scores: Ints) -> Ints:
        """Maps the raw scores of all feasible nodes to the range from 0 to MAX_NODE_SCORE."""
        return scores


class NodeScorePlugin(Plugin):
    @abstractmethod
    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        """Returns the score of one node, from 0 to MAX_NODE_SCORE, or in any range that
        `normalize_scores` maps to it: the scalar form of Score.
        """

    def normalize_scores(self, state: CycleState, info: PodInfo, scores: list[int]) -> list[int]:
        return scores


class ReservePlugin(Plugin):
    @abstractmethod
    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        """Reserves resources for the pod on the node. The snapshot of the decision is still valid;
        the pod is not in it.
        """

    @abstractmethod
    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        """Undoes `reserve`. It must do no harm if `reserve` did not run."""


class PermitPlugin(Plugin):
    @abstractmethod
    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        """Returns a status, and for WAIT the longest wait in seconds."""


class PreBindPreFlightResult(msgspec.Struct, frozen=True):
    """The answer that PreBind has something to do. With `allow_parallel`, it may run at the same
    time as the plugins before and after it that allow it too.
    """

    allow_parallel: bool = False


class PreBindPlugin(Plugin):
    def pre_bind_pre_flight(
        self, state: CycleState, info: PodInfo, node: str
    ) -> Status | PreBindPreFlightResult:
        """Returns success or a PreBindPreFlightResult if `pre_bind` has something to do for this
        pod, SKIP to leave it out. It must be quick.
        """
        return SUCCESS

    @abstractmethod
    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        """Prepares the node or the pod's volumes. It may take long, and is cancelled if the pod is
        preempted.
        """

    async def roll_back(self, state: CycleState, info: PodInfo, node: str) -> None:
        """Undoes what `pre_bind` wrote if the attempt did not bind the pod, after `unreserve` and
        before the pod is tried again. Somebody else may have bound it. It must do no harm if
        `pre_bind` did not run.
        """


class BindPlugin(Plugin):
    @abstractmethod
    async def bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        """Binds the pod. SKIP leaves the pod to the next bind plugin."""


class PostBindPlugin(Plugin):
    @abstractmethod
    def post_bind(self, state: CycleState, info: PodInfo, node: str) -> None: ...


def default_normalize(scores: Ints, *, reverse: bool) -> Ints:
    """Scales scores to 0..100 by the highest score; `reverse` inverts the scale. If all are zero,
    the result is all 0, or all 100 with `reverse`.
    """
    highest = int(scores.max(initial=0))
    if highest == 0:
        return scores * 0 + MAX_NODE_SCORE if reverse else scores
    if highest <= SAFE_AMOUNT:
        scaled = MAX_NODE_SCORE * scores // highest
    else:
        scaled = (MAX_NODE_SCORE * scores.astype(object) // highest).astype(np.int64)
    return MAX_NODE_SCORE - scaled if reverse else scaled
