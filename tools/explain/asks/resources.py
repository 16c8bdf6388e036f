"""Nodes without enough of a resource for the pod, or with as many pods as they may have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..words import amount
from .ask import Ask, Question, Rejected

INSUFFICIENT = "Insufficient "
TOO_MANY_PODS = "Too many pods"
PODS = "pods"


def asks(question: Question, rejected: Rejected) -> Iterator[Ask]:
    """Yields an ask for each set of resources that nodes lack."""
    for reasons, nodes in rejected.items():
        lacks = sorted(reasons)
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
        yield Ask(tuple(nodes), one, many, "; ".join(remedies))


def _shortage(question: Question, name: str, nodes: Sequence[str]) -> tuple[str, str]:
    """Returns what is short in words, and the remedy."""
    requested = question.info.template.spec_requests.get(name, 0)
    infos = [question.nodes[node] for node in nodes]
    largest = max(info.allocatable.get(name, 0) for info in question.nodes.values())
    most = max(info.allocatable.get(name, 0) for info in infos)
    if not most:
        them = "none of them has any" if len(nodes) > 1 else "it has none"
        lack = f"{name} ({them if largest else 'no node has any'})"
        return lack, f"add a node with {name}, or do not request it"
    if largest < requested:
        them = "the largest of them" if len(nodes) > 1 else "it"
        which, has = "the largest node" if most == largest else them, _amount(name, most)
        lack = f"{name} ({_amount(name, requested)} requested, {which} has {has})"
        return lack, f"request at most {has} {name}, or add a larger node"
    amounts = [info.allocatable.get(name, 0) - info.requested.get(name, 0) for info in infos]
    free = dict(zip(nodes, amounts, strict=True))
    closest = max(free, key=free.__getitem__)
    short = _amount(name, requested - free[closest])
    if question.nodes[closest].allocatable.get(name, 0) < requested:
        remedy = f"request at most {_amount(name, max(free[closest], 0))} {name}"
    else:
        remedy = f"free {short} {name} on {closest}"
        if free[closest] > 0:
            remedy += f", or request at most {_amount(name, free[closest])}"
    return f"{name} (closest: {closest}, {short} short)", remedy


def _amount(name: str, number: int) -> str:
    return amount(number * (10**6 if name == "cpu" else 10**9))
