"""Nodes without enough of a resource for the pod, or with as many pods as they may have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from berth.actors.scheduling.kube.requests import unit_of

from ..deferred_resizes import held_by_resize
from ..words import amount
from .ask import Ask, AskQuestion, Rejected

INSUFFICIENT = "Insufficient "
TOO_MANY_PODS = "Too many pods"
PODS = "pods"


def asks(question: AskQuestion, rejected: Rejected) -> Iterator[Ask]:
    """Yields an ask for each set of resources that nodes lack."""
    for reasons, nodes in rejected.items():
        lacks = sorted(reasons)
        names = [reason.removeprefix(INSUFFICIENT) for reason in lacks if reason != TOO_MANY_PODS]
        words = [_short_resources(question, name, nodes) for name in names]
        one, many = ("lacks ", "lack ") if words else ("", "")
        what = " and ".join(words)
        if TOO_MANY_PODS in lacks:
            what = f"{what}; " if what else ""
            most = max(question.nodes[node].allocatable.get(PODS, 0) for node in nodes)
            one = f"{one}{what}has all the pods that it may have (at most {most})"
            many = f"{many}{what}have all the pods that they may have (at most {most})"
        else:
            one, many = one + what, many + what
        yield Ask(tuple(nodes), one, many)


def _short_resources(question: AskQuestion, name: str, nodes: Sequence[str]) -> str:
    """Returns the resources that are short, in words."""
    requested = question.info.template.spec_requests.get(name, 0)
    infos = [question.nodes[node] for node in nodes]
    largest = max(info.allocatable.get(name, 0) for info in question.nodes.values())
    most = max(info.allocatable.get(name, 0) for info in infos)
    if not most:
        them = "none of them has any" if len(nodes) > 1 else "it has none"
        return f"{name} ({them if largest else 'no node has any'})"
    if largest < requested:
        them = "the largest of them" if len(nodes) > 1 else "it"
        which, has = "the largest node" if most == largest else them, quantity(name, most)
        return f"{name} ({quantity(name, requested)} requested, {which} has {has})"
    amounts = [info.allocatable.get(name, 0) - info.requested.get(name, 0) for info in infos]
    free = dict(zip(nodes, amounts, strict=True))
    closest = max(free, key=free.__getitem__)
    short = f"closest: {closest}, {quantity(name, requested - free[closest])} short"
    return f"{name} ({short}{_held_by_resize(question, name, closest)})"


def _held_by_resize(question: AskQuestion, name: str, node: str) -> str:
    """Names the pod on a node whose deferred resize holds most of a resource; "" if none does."""
    pods = question.nodes[node].pods
    held = {key: held_by_resize(info.pod).get(name, 0) for key, info in pods.items()}
    most = max(held, key=held.__getitem__, default="")
    if not held.get(most):
        return ""
    return f", where a deferred resize of {most} holds {quantity(name, held[most])}"


def quantity(name: str, number: int) -> str:
    """Returns a number of a resource as a quantity."""
    return amount(number * unit_of(name))
