"""The result of a what-if, with its conclusion: whether the steps do harm. The command, the page
and the JSON share it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from ..explain.cause import Cause
from ..explain.pending_pods import without_pods
from ..explain.words import counted_words, listed
from .node_usage import NodeChange
from .placement import Deleted, Evicted, Lost, Placed, Refused

WAITING = "waiting in Permit"  # of the pods that have a node
_IS = "is", "are"


class Pending(msgspec.Struct, frozen=True):
    """Pods (namespace/name) of a workload that stay pending for the same reason.

    `before` is true of pods that were pending before the steps, too. `causes` are the reason for
    programs, as of the first of the pods.
    """

    workload: str
    pods: list[str]
    reason: str
    before: bool
    causes: list[Cause]


class Kept(msgspec.Struct, frozen=True):
    """A pod (namespace/name) for which a drain still waits, and the budgets that forbid its
    eviction.
    """

    pod: str
    node: str
    budgets: list[str]


class RefusedEviction(msgspec.Struct, frozen=True):
    """A pod (namespace/name) that a step would evict, and that stays on its node: the eviction is
    refused with 429, as these budgets forbid it.
    """

    pod: str
    node: str
    budgets: list[str]
    step: int
    cause: Cause


class Returned(msgspec.Struct, frozen=True):
    """A pod (namespace/name) that came to a node after its drain began. A drain evicts only the
    pods that were there at its beginning.
    """

    pod: str
    node: str


class LeftAlone(msgspec.Struct, frozen=True):
    """Pending pods (namespace/name) of a scheduler that is not tried."""

    scheduler: str
    pods: list[str]


class WithoutPods(msgspec.Struct, frozen=True):
    """A workload without pods, the number that it asks for, and the one pod (namespace/name) that
    was tried before the steps with its node; "" if it could not be placed, or not created.
    """

    workload: str
    asks: int
    pod: str
    node: str


class Result(msgspec.Struct, frozen=True, rename="camel"):
    """What has become of the pods and the nodes, and whether that `hurts`: whether a step loses
    pods or leaves a workload without any, or pods are pending that were not before. Without steps,
    no pod was pending before.
    """

    conclusion: str
    hurts: bool
    all_placed: bool
    placed: list[Placed]
    pending: list[Pending]
    lost: list[Lost]
    evicted: list[Evicted]
    deleted: list[Deleted]
    nodes: list[NodeChange]
    kept: list[Kept]
    returned: list[Returned]
    left_alone: list[LeftAlone]
    without_pods: list[WithoutPods]
    refused: list[Refused]
    refused_evictions: list[RefusedEviction]

    @property
    def notes(self) -> Iterator[str]:
        """The sentences after the conclusion."""
        if self.lost:
            yield f"lost: {listed([of.pod for of in self.lost])}, which nothing makes anew"
        before = sum(len(of.pods) for of in self.pending if of.before)
        if before:
            yield _pods(
                before, "was pending before and still is", "were pending before and still are"
            )
        if self.without_pods:
            unplaced = sum(not of.node for of in self.without_pods)
            yield without_pods(len(self.without_pods), unplaced)
        refused = sum(not of.step for of in self.refused)
        if refused and _workloads(refused) not in self.conclusion:
            yield _workloads(refused)
        if self.kept:
            kept = self.kept[0].pod if len(self.kept) == 1 else f"{len(self.kept)} pods"
            yield f"{kept} kept by disruption budgets: a drain waits"
        if self.refused_evictions:
            refusals = counted_words(len(self.refused_evictions), "eviction")
            names = listed([of.pod for of in self.refused_evictions])
            yield f"{refusals} refused by disruption budgets (429): {names}"
        if self.returned:
            pods = self.returned[0].pod if len(self.returned) == 1 else f"{len(self.returned)} pods"
            yield f"{pods} came to a node after its drain began, and stays there"
        for of in self.left_alone:
            pods = of.pods[0] if len(of.pods) == 1 else f"{len(of.pods)} pods"
            yield f"left alone: {pods} of the scheduler {of.scheduler}"
        waits = Counter(plugin for of in self.placed for plugin in of.waits_for)
        for plugin, number in sorted(waits.items()):
            which = _pods(number, "waits", "wait")
            nodes = "its node" if number == 1 else "their nodes"
            yield f"{which} in Permit of {plugin} on {nodes}"
        untried = Counter(plugin for of in self.placed for plugin in of.untried)
        for plugin, number in sorted(untried.items()):
            yield f"{plugin} has a say about {number} of them, and is not tried"


def harm(
    pending: list[Pending], lost: list[Lost], refused: list[Refused], *, steps: bool
) -> list[str]:
    """Returns the harm in the words of a conclusion, such as "1 pod is lost"."""
    gone = sum(bool(of.step) or not steps for of in lost)
    waiting = sum(len(of.pods) for of in pending if not of.before)
    words = [f"{_pods(gone, *_IS)} lost"] if gone else []
    if waiting:
        became = f"{_pods(waiting, *_IS)} newly" if steps else _pods(waiting, "stays", "stay")
        words.append(f"{became} pending")
    number = sum(bool(of.step) or not steps for of in refused)
    if number:
        words.append(_workloads(number))
    return words


def concluded(
    harm: list[str],
    pending: Sequence[Pending | Refused],
    left_alone: list[LeftAlone],
    counts: dict[str, int],
    *,
    any_pods: bool,
) -> str:
    """Returns the conclusion. `counts` are numbers of pods by what has become of them."""
    settled = "all pods have a node" if any_pods else "there are no pods"
    open_ends = pending or left_alone or counts[WAITING]
    settled = "no pod is lost or newly pending" if open_ends else settled
    numbers = [f"{n} {became}" for became, n in counts.items() if n or became == "placed"]
    return f"{', '.join(harm) or settled}: {', '.join(numbers)}"


def _workloads(number: int) -> str:
    return "1 workload gets no pods" if number == 1 else f"{number} workloads get no pods"


def _pods(number: int, one: str, more: str) -> str:
    return f"1 pod {one}" if number == 1 else f"{number} pods {more}"
