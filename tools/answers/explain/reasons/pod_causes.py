"""The causes of a decision: of each node's verdict, and of the pod with its nodes counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from msgspec.structs import replace

from berth.actors.scheduling.kube.quantity import milli_value

from ..asks.node_asks import OUTSIDE, SUCCESS
from ..cause import Cause
from ..decider import Attempt
from ..decision import Decision, Failure, NodeVerdict
from ..device_words import supply
from ..on_node import OnNode
from .cause_details import NO_DEVICES, OF_A_NODE, CauseDetails
from .cause_search import cause_in_message, cause_of, causes_of, standing_causes

DEVICES = "DynamicResources"
PREEMPTION = "DefaultPreemption"
_COUNTED = re.compile(r"(\d+) ([^,]+?)(?:, |\.$|$)")
# 0/2 nodes are available: 1 Insufficient cpu, 1 Too many pods. preemption: ...
_FIT_ERROR = re.compile(
    r"0/\d+ nodes are available: (?P<reasons>.*?)\.(?: (?P<after>.*))?", re.DOTALL
)
_COUNT, _BETWEEN = re.compile(r"(\d+) (.*)", re.DOTALL), re.compile(r", (?=\d+ )")
_BEGINNING = "preemption: "
_NO_NODES = re.compile(r"0/\d+ nodes are available: ")


class PodCauses:
    """The causes of a decision about a pod. With `devices`, it is asked for each node which of the
    pod's claims lack devices, which takes time in large clusters.
    """

    def __init__(
        self, attempt: Attempt, decision: Decision | Failure, *, devices: bool = False
    ) -> None:
        self._decision = decision
        short = NO_DEVICES
        if devices and not isinstance(decision, Failure) and _is_short(decision):
            short = supply(attempt.info, attempt.snapshot, attempt.profile.filters)
        self._details = CauseDetails(attempt.info, attempt.snapshot, attempt.profile.filters, short)
        verdicts = {} if isinstance(decision, Failure) else decision.filter
        self._groups = list(_groups(verdicts))

    @cached_property
    def by_node(self) -> dict[str, list[Cause]]:
        """The causes of each node that was rejected."""
        return {
            node: [self._details.on_node(node, cause) for cause in causes]
            for causes, nodes in self._groups
            for node in nodes
        }

    @property
    def of_nodes(self) -> list[Cause]:
        """The causes of all nodes, each once with their number."""
        return summary(
            each
            for causes, nodes in self._groups
            for cause in causes
            for each in self._details.on_nodes(nodes, cause)
        )

    @property
    def prefilter(self) -> list[Cause]:
        """The causes for which PreFilter rejects all nodes."""
        decision = self._decision
        if isinstance(decision, Failure) or decision.prefilter is None:
            return []
        return [self._details.of_pod(cause) for cause in _plain(decision.prefilter)]

    def of_pod(self, standing: Iterable[str] = (), there: OnNode | None = None) -> list[Cause]:
        """Returns all causes, each once: of the sentences that say why the pod is not tried now, of
        PreFilter, of the nodes, which are counted, of the node that was chosen, and of preemption.
        """
        decision = self._decision
        causes = standing_causes(standing)
        if isinstance(decision, Failure):
            return [*causes, failed(decision.error)]
        causes += [*self.prefilter, *self.of_nodes]
        if there is not None and there.rejected:
            rejected = cause_of(there.rejected_by, there.message)
            causes.append(replace(rejected, node=there.node))
        elif there is not None and there.waits_for:
            words = f"waits on {there.node} until {', '.join(there.waits_for)} permits it"
            causes.append(cause_of("", words))
        if decision.preemption_message:
            causes += preemption_causes(decision.preemption_message)
        return causes

    @property
    def codes(self) -> dict[str, int]:
        """The number of nodes that were rejected for each code, most nodes first."""
        counts: Counter[str] = Counter()
        for causes, nodes in self._groups:
            counts.update({cause.code: len(nodes) for cause in causes})
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def with_causes(decision: Decision, causes: PodCauses) -> Decision:
    """Returns a decision of which each verdict that rejects has its causes."""
    verdicts = {
        node: replace(verdict, causes=causes.by_node[node]) if node in causes.by_node else verdict
        for node, verdict in decision.filter.items()
    }
    prefilter = decision.prefilter
    if prefilter is not None:
        prefilter = replace(prefilter, causes=causes.prefilter)
    return replace(decision, filter=verdicts, prefilter=prefilter)


def summary(causes: Iterable[Cause]) -> list[Cause]:
    """Returns each cause once, with the sum of the nodes; most nodes first."""
    counts: Counter[Cause] = Counter()
    closest: dict[Cause, Cause] = {}
    for cause in causes:
        same = replace(cause, nodes=0, **OF_A_NODE)
        counts[same] += cause.nodes
        before = closest.get(same)
        if before is None or _shortage(cause) < _shortage(before):
            closest[same] = cause
    return [replace(closest[same], nodes=number) for same, number in counts.most_common()]


def _groups(verdicts: Mapping[str, NodeVerdict]) -> Iterator[tuple[list[Cause], list[str]]]:
    """Yields the causes of each verdict that rejects, and its nodes; many nodes share a verdict."""
    same: dict[int, tuple[NodeVerdict, list[str]]] = {}
    for node, verdict in verdicts.items():
        group = same.get(id(verdict))
        if group is None:
            group = same[id(verdict)] = verdict, []
        group[1].append(node)
    for verdict, nodes in same.values():
        if verdict.code != SUCCESS:
            yield _plain(verdict), nodes


def failed(error: str) -> Cause:
    """Returns the cause of an attempt that ended with an error."""
    cause = cause_of("", error)
    return cause if cause.code == "AttemptFailed" else Cause("AttemptFailed", error)


def message_causes(message: str) -> list[Cause]:
    """Returns the causes in a message of FailedScheduling, with the number of nodes of each, and
    those of PostFilter.
    """
    whole = _FIT_ERROR.fullmatch(message)
    if not whole:
        return [cause_of("", message)] if message else []
    counted = (_COUNT.fullmatch(part) for part in _BETWEEN.split(whole["reasons"]))
    causes = [replace(cause_in_message(of[2]), nodes=int(of[1])) for of in counted if of]
    return [
        *(causes or [cause_in_message(whole["reasons"])]),
        *preemption_causes(whole["after"] or ""),
    ]


def preemption_part(message: str) -> list[Cause]:
    """Returns the causes of PostFilter in a message of FailedScheduling."""
    whole = _FIT_ERROR.fullmatch(message)
    return preemption_causes(whole["after"] or "") if whole else []


def preemption_causes(message: str) -> list[Cause]:
    """Returns the causes in the message of PostFilter, which joins the answers of its plugins; with
    the number of nodes of each that is about nodes.
    """
    before, begun, after = message.partition(_BEGINNING)
    causes = [cause_of("", text) for text in before.removesuffix(", ").split(", ") if text]
    nodes = _NO_NODES.match(after)
    if nodes:
        counted = _COUNTED.findall(after[nodes.end() :])
        causes += [replace(cause_of(PREEMPTION, text), nodes=int(n)) for n, text in counted]
    elif begun:
        causes.append(cause_of(PREEMPTION, begun + after))
    return causes


def _plain(verdict: NodeVerdict) -> list[Cause]:
    plugin = verdict.plugin or ("NodeAffinity" if verdict.reasons == OUTSIDE else "")
    return causes_of(plugin, verdict.reasons)


def _is_short(decision: Decision) -> bool:
    return any(verdict.plugin == DEVICES for verdict in decision.filter.values())


def _shortage(cause: Cause) -> int:
    return milli_value(cause.shortage) if cause.shortage else 0
