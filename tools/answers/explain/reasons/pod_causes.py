"""The causes of a decision: of each node's verdict, and of the pod with its nodes counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from berth.actors.scheduling.kube.quantity import milli_value

from ..asks.node_asks import OUTSIDE, SUCCESS
from ..cause import Cause
from ..decider import Attempt
from ..decision import Decision, Failure, NodeVerdict
from ..device_words import supply
from ..on_node import OnNode
from .cause_details import NO_DEVICES, CauseDetails
from .reason_table import cause_of, causes_of, standing_causes

DEVICES = "DynamicResources"
PREEMPTION = "DefaultPreemption"
_COUNTED = re.compile(r"(\d+) ([^,]+?)(?:, |\.$|$)")
_BEGINNING = "preemption: "
_NO_NODES = re.compile(r"0/\d+ nodes are available: ")
# The fields that may differ between the nodes that are counted together.
_OF_A_NODE = {"allocatable": "", "free": "", "shortage": "", "pod": ""}


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
        self._details = CauseDetails(attempt.info, attempt.snapshot, short)
        self.by_node = {} if isinstance(decision, Failure) else self._by_node(decision)

    def _by_node(self, decision: Decision) -> dict[str, list[Cause]]:
        of_verdict: dict[int, list[Cause]] = {}  # Many nodes share a verdict.
        causes: dict[str, list[Cause]] = {}
        for node, verdict in decision.filter.items():
            if verdict.code == SUCCESS:
                continue
            plain = of_verdict.get(id(verdict))
            if plain is None:
                plain = of_verdict[id(verdict)] = _plain(verdict)
            differ = any(self._details.differ(cause.code) for cause in plain)
            causes[node] = [self._details.on_node(node, c) for c in plain] if differ else plain
        return causes

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
        causes += [*self.prefilter, *summary(self.by_node.values())]
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
        counts = Counter(c for causes in self.by_node.values() for c in {c.code for c in causes})
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


def summary(by_node: Iterable[Sequence[Cause]]) -> list[Cause]:
    """Returns each cause once, with the number of its nodes; most nodes first."""
    counts: Counter[Cause] = Counter()
    closest: dict[Cause, Cause] = {}
    for causes in by_node:
        for cause in causes:
            same = replace(cause, **_OF_A_NODE)
            counts[same] += 1
            before = closest.get(same)
            if before is None or _shortage(cause) < _shortage(before):
                closest[same] = cause
    return [replace(closest[same], nodes=number) for same, number in counts.most_common()]


def failed(error: str) -> Cause:
    """Returns the cause of an attempt that ended with an error."""
    cause = cause_of("", error)
    return cause if cause.code == "AttemptFailed" else Cause("AttemptFailed", error)


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


def rejection_causes(rejected: Mapping[tuple[str, tuple[str, ...]], int]) -> list[Cause]:
    """Returns the causes of rejections, of which no more is known than plugin, reasons and the
    number of nodes.
    """
    return [
        replace(cause, nodes=number)
        for (plugin, reasons), number in rejected.items()
        for cause in causes_of(plugin, reasons)
    ]


def _plain(verdict: NodeVerdict) -> list[Cause]:
    plugin = verdict.plugin or ("NodeAffinity" if verdict.reasons == OUTSIDE else "")
    return causes_of(plugin, verdict.reasons)


def _is_short(decision: Decision) -> bool:
    return any(verdict.plugin == DEVICES for verdict in decision.filter.values())


def _shortage(cause: Cause) -> int:
    return milli_value(cause.shortage) if cause.shortage else 0
