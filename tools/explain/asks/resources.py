"""Nodes without enough of a resource for the pod, or with as many pods as they may have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..words import amount
from .ask import Ask, Question, grouped

INSUFFICIENT = "Insufficient "
TOO_MANY_PODS = "Too many pods"
PODS = "pods"


def asks(question: Question, reasons: Mapping[str, Sequence[str]]) -> Iterator[Ask]:
    """Yields an ask for each set of resources that nodes lack. `reasons` are those of
    NodeResourcesFit, by node.
    """
    for lacks, nodes in grouped((node, tuple(sorted(of))) for node, of in reasons.items()).items():
        names = [reason.removeprefix(INSUFFICIENT) for reason in lacks if reason != TOO_MANY_PODS]
        words = [_shortage(question, name, nodes) for name in names]
        one, many = ("lacks ", "lack ") if words else ("", "")
        what = " and ".join(word for word, _ in words)
        full = TOO_MANY_PODS in lacks
        if full:
            what = f"{what}; " if what else ""
            most = max(question.nodes[node].allocatable.get(PODS, 0) for node in nodes)
            one = f"{one}{what}has all the pods that it may have (at most {most})"
            many = f"{many}{what}have all the pods that they may have (at most {most})"
        else:
            one, many = one + what, many + what
        remedies = [remedy for _, remedy in words] + ["remove a pod from one of them"] * full
        yield Ask(nodes, one, many, "; ".join(remedies))


def _shortage(question: Question, name: str, nodes: Sequence[str]) -> tuple[str, str]:
    """Returns what is short in words, and the remedy."""
    requested = question.info.template.spec_requests.get(name, 0)
    sizes = {node: info.allocatable.get(name, 0) for node, info in question.nodes.items()}
    largest = max(sizes, key=lambda node: sizes[node])
    if not sizes[largest]:
        return f"{name} (no node has any)", f"add a node with {name}, or do not request it"
    if sizes[largest] < requested:
        most = _amount(name, sizes[largest])
        lack = f"{name} ({_amount(name, requested)} requested, the largest node has {most})"
        return lack, f"request at most {most} {name}, or add a larger node"
    free = {node: sizes[node] - question.nodes[node].requested[name] for node in nodes}
    closest = max(free, key=lambda node: free[node])
    short = _amount(name, requested - free[closest])
    if sizes[closest] < requested:
        remedy = f"request at most {_amount(name, max(free[closest], 0))} {name}"
    else:
        remedy = f"free {short} {name} on {closest}"
        if free[closest] > 0:
            remedy += f", or request at most {_amount(name, free[closest])}"
    return f"{name} (closest: {closest}, {short} short)", remedy


def _amount(name: str, number: int) -> str:
    return amount(number * (10**6 if name == "cpu" else 10**9))
