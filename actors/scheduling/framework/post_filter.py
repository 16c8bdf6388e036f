"""PostFilter: the failed attempt that a plugin gets, and the answers that it may give."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..kube.meta import HasMetadata
from ..model.derived import derived_once
from ..model.pod_info import PodInfo
from ..model.pod_template import PodTemplate
from ..model.read_only_arrays import frozen
from ..model.snapshot import Snapshot
from ..model.vectors import Bools, Ints
from .cycle_state import CycleState
from .status import Code, Status
from .verdicts import Diagnosis

_UNSCHEDULABLE = np.int8(Code.UNSCHEDULABLE)


class Rng(Protocol):
    def randrange(self, stop: int, /) -> int: ...


class Nomination(msgspec.Struct, frozen=True):
    """The node that is promised to a pod once the victims are gone.

    `displaced` are pods that lose their nomination to the node.
    """

    node: str
    victims: tuple[PodInfo, ...] = ()
    displaced: tuple[PodInfo, ...] = ()


class Patch(msgspec.Struct, frozen=True):
    """A JSON merge patch of an object, or of its `subresource`; see ApiHandle.patch."""

    kind: type[HasMetadata]
    name: str
    changes: Mapping[str, Any]
    namespace: str = ""
    subresource: str = ""


class Deletion(msgspec.Struct, frozen=True):
    """The deletion of an object, if it still has this uid; see ApiHandle.delete."""

    kind: type[HasMetadata]
    name: str
    uid: str
    namespace: str = ""


class PostFiltered(msgspec.Struct, frozen=True):
    """The answer of a PostFilter plugin.

    Success comes with a nomination. `denominate` withdraws an earlier nomination of the pod. With
    an error, both are ignored. With `again` the pod is tried again after its backoff, without
    waiting for an event. The events of the plugins in `rejected_by` wake it too: they are why no
    room could be made.
    `patches` and deletions are sent after the decision, one after the other; a refusal ends them.
    """

    status: Status
    nomination: Nomination | None = None
    denominate: bool = False
    again: bool = False
    patches: tuple[Patch | Deletion, ...] = ()
    rejected_by: frozenset[str] = frozenset()


class FailedAttempt(ABC):
    """An attempt at a pod that found no node.

    `extended` is true if there may be extenders that filter or preempt.
    """

    state: CycleState
    info: PodInfo
    snapshot: Snapshot
    rng: Rng
    extended: bool

    @property
    @abstractmethod
    def codes(self) -> NDArray[np.int8]:
        """int8[nodes], in the node tree's order: the code with which each node was rejected.

        Nodes that PreFilter left out count as unresolvable.
        """

    @property
    @abstractmethod
    def row_by_row(self) -> bool:
        """True if each filter's verdict about a row depends on that row alone."""

    @property
    @abstractmethod
    def seen_by(self) -> PodTemplate | None:
        """The pod's template, for `supposing`, if all filters that concern the pod compare only the
        requests, ports and disks that it has itself with those of other pods; otherwise None.
        """

    @property
    @abstractmethod
    def versions(self) -> tuple[int, ...] | None:
        """The versions of the kinds that the filters look up. While they are the same, a verdict
        about a row holds for all pods of the template until that row changes.

        None if a filter reads the pod's claims or more than the row: then no verdict can be kept.
        """

    @abstractmethod
    def supposed(self, rows: Ints) -> Diagnosis:
        """Returns the diagnosis of some rows, with the pods that are supposed there.

        A node for which a plugin fails gets the code ERROR. Raises PluginError if a plugin looks up
        objects that are not listed.
        """

    @derived_once
    def helped(self) -> Bools:
        """bool[nodes], in the node tree's order: True where evictions could make room for the
        pod.
        """
        return frozen(np.asarray(self.codes == _UNSCHEDULABLE))

    @property
    def potential(self) -> Ints:
        """The rows where evictions could make room for the pod, in the node tree's order."""
        return np.asarray(self.snapshot.columns.order[self.helped])
