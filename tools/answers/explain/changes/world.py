"""A pending pod and the cluster around it, in which changes are tried."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TypeVar

import jsonpatch
import numpy as np

from berth.actors.scheduling.decision.algorithm import schedule_pod
from berth.actors.scheduling.decision.failures import PluginError
from berth.actors.scheduling.decision.outcome import Outcome, Unfit
from berth.actors.scheduling.decision.plain import Plain
from berth.actors.scheduling.decision.sampling import every_node
from berth.actors.scheduling.framework.post_filter import Nomination
from berth.actors.scheduling.framework.questions import run_without_extenders
from berth.actors.scheduling.framework.status import Code
from berth.actors.scheduling.kube.core import Namespace
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.kube.policy import PodDisruptionBudget
from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.plugins.default_preemption.budgets import Budgets

from ....kubernetes.api.types.api_documents import names_of
from ..cluster_source import SourceError
from ..decider import fitting_nodes
from ..decision import First
from ..tried_cluster import AskedPod
from .edit import Action, Document, Edit

T = TypeVar("T")
Kind = TypeVar("Kind", bound=HasMetadata)
UNREADABLE = SourceError, jsonpatch.JsonPatchException, jsonpatch.JsonPointerException
MOST_DECISIONS = 300


class World:
    """The pod and the cluster with the changes that are being tried.

    After MOST_DECISIONS decisions, or after this many seconds, it is `spent`: the pod fits nowhere.
    """

    def __init__(self, asked: AskedPod, outcome: Outcome, seconds: float) -> None:
        self._tried = asked.tried
        self._attempt = self._first = asked.attempt
        self._pod = "Pod", *names_of(asked.question.pod)
        self.pinned_to = asked.question.pinned_to
        self._preempted = outcome.nomination if isinstance(outcome, Unfit) else None
        self._easings: tuple[Edit, ...] = ()
        self._among: Collection[str] | None = None
        self._decisions = 0
        self._end = monotonic() + seconds
        self.spent = False

    @property
    def pod(self) -> Document:
        return self._tried.at(self._pod)

    @property
    def gates(self) -> Mapping[str, bool]:
        """The feature gates and changes of the version that decides, with their values."""
        return self._tried.explainer.handle.feature_gates

    @property
    def written(self) -> PodInfo:
        """The pod as its document says."""
        return self._attempt.info

    @property
    def info(self) -> PodInfo:
        """The pod in the form of the scheduler."""
        with self.changed(self._easings):
            return self._attempt.info

    @property
    def preempted(self) -> Nomination | None:
        """The result of preemption before any change of the pod; None after a change."""
        changed = bool(self._easings) or self._attempt is not self._first
        return None if changed or not self._counts(self._preempted) else self._preempted

    def document(self, kind: str, name: str, namespace: str = "") -> Document | None:
        return self._tried.document(kind, name, namespace)

    def every(self, kind: str) -> list[Document]:
        return [document for _, document in self._tried.every(kind)]

    def objects(self, kind: type[Kind]) -> Iterable[Kind]:
        """Returns the objects of a kind as the scheduler reads them."""
        return self._tried.snapshot().objects.every(kind)

    def node_infos(self) -> list[NodeInfo]:
        """Returns the nodes with their pods, in the order of their names."""
        return list(self._tried.node_infos().values())

    def node_info(self, name: str) -> NodeInfo:
        return self._tried.node_info(name)

    def budgets(self) -> Budgets:
        """Returns the disruption budgets that cover pods."""
        return Budgets(self.objects(PodDisruptionBudget))

    def namespaces(self) -> dict[str, Mapping[str, str]]:
        """Returns the labels of the namespaces."""
        return {n.metadata.name: n.metadata.labels for n in self.objects(Namespace)}

    # ---------------------------------------------------------------------------------- deciding

    def fits(self, node: str = "") -> bool:
        """True if the pod would fit on the node now; "" stands for any."""
        nodes = self.nodes()
        return node in nodes if node else bool(nodes)

    def nodes(self) -> list[str]:
        """Returns the nodes that the pod fits on now, sorted."""
        return self._counted(self._answer(fitting_nodes, []))

    def helped_by_room(self) -> list[str]:
        """Returns the nodes that the pod may fit on if other pods leave, sorted."""
        return self._counted(self._answer(_helped_by_room, []))

    def nomination(self) -> Nomination | None:
        """Returns the result of preemption, None if it does not help."""
        nomination = self._answer(_nomination, None)
        return nomination if self._counts(nomination) else None

    @contextmanager
    def among(self, nodes: Collection[str]) -> Iterator[None]:
        """Restricts decisions to these nodes until the block ends."""
        self._among = nodes
        try:
            yield
        finally:
            self._among = None

    def _counted(self, nodes: Iterable[str]) -> list[str]:
        among = self._among
        return sorted(nodes if among is None else (node for node in nodes if node in among))

    def _counts(self, nomination: Nomination | None) -> bool:
        return nomination is None or self._among is None or nomination.node in self._among

    def _answer(self, answer: Callable[[Plain], T], otherwise: T) -> T:
        """Returns the answer of a new decision, or the given value if the decision fails."""
        self._decisions += 1
        self.spent = self.spent or self._decisions > MOST_DECISIONS or monotonic() > self._end
        if self.spent:
            return otherwise
        with self.changed(self._easings) as readable:
            if not readable or self._attempt.info.pod.spec.scheduling_gates:
                return otherwise
            try:
                attempt = self._attempt
                return answer(Plain(attempt.profile, attempt.info, attempt.snapshot))
            except PluginError:
                return otherwise

    # ---------------------------------------------------------------------------------- changing

    @contextmanager
    def eased(self, edits: Sequence[Edit]) -> Iterator[None]:
        """Adds these edits to each change that is decided on, until the block ends.

        The edits do not appear in the objects, so that changes have the same patches with and
        without them.
        """
        self._easings = tuple(edits)
        try:
            yield
        finally:
            self._easings = ()

    @contextmanager
    def changed(self, edits: Sequence[Edit]) -> Iterator[bool]:
        """Makes edits, and undoes them when the block ends.

        Yields False, and makes no further edit, if the scheduler could not read an object.
        """
        attempt = self._attempt
        with self._tried.trial():
            try:
                for edit in edits:
                    self._make(edit)
                readable = True
            except UNREADABLE:
                readable = False
            try:
                yield readable
            finally:
                self._attempt = attempt

    def _make(self, edit: Edit) -> None:
        document = edited(edit, self.document(edit.kind, edit.name, edit.namespace))
        if document is None:
            self._tried.remove(edit.place)
            return
        self._tried.put(document)
        if edit.place == self._pod:
            self._attempt = self._tried.attempt(self._pod)


def _helped_by_room(plain: Plain) -> list[str]:
    evaluation = plain.evaluation()
    diagnosis, live = evaluation.diagnosis, evaluation.live
    if diagnosis is None or live is None:
        return []
    positions = np.flatnonzero(live & (diagnosis.codes == Code.UNSCHEDULABLE))
    return sorted(diagnosis.view.name(position) for position in positions.tolist())


def _nomination(plain: Plain) -> Nomination | None:
    outcome = run_without_extenders(schedule_pod(plain, every_node, First(), extended=False))
    return outcome.nomination if isinstance(outcome, Unfit) else None


def edited(edit: Edit, document: Document | None) -> Document | None:
    """Returns the object after an edit, None if it is deleted."""
    match edit.action:
        case Action.PATCH:
            assert document is not None, edit.place
            result: Document = jsonpatch.apply_patch(document, edit.patch)
            return result
        case Action.CREATE:
            return edit.document
        case Action.DELETE:
            return None
