"""Nodes that the pod may not use by their names, labels, taints or cordons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

import msgspec

from berth.actors.scheduling.kube.core import Node, NodeSelectorRequirement, NodeSelectorTerm, Pod
from berth.actors.scheduling.kube.node_selector import requirement_matches
from berth.actors.scheduling.kube.taints import HARD_EFFECTS
from berth.actors.scheduling.plugins.node_declared_features import needed_features

from ..words import listed, required
from .ask import Ask, AskQuestion, Rejected, nodes_by_lack, nodes_of

HOSTNAME = "metadata.name"
# Taints of nodes that are cordoned or broken: a pod should not tolerate them.
CONDITIONS = "node.kubernetes.io/"
# Labels that say what and where a node is.
FACTS = ("kubernetes.io/", "topology.kubernetes.io/", "node.kubernetes.io/", "beta.kubernetes.io/")
# The values of these labels are near each other and mean different things.
_NOT_MISTYPED = ("kubernetes.io/arch", "kubernetes.io/os")


class NodeLack(msgspec.Struct, frozen=True):
    """A requirement that a node does not meet: of a label, or of the node's name."""

    requirement: NodeSelectorRequirement
    of_name: bool = False


def cordon_asks(_: AskQuestion, rejected: Rejected) -> Iterator[Ask]:
    yield Ask(tuple(nodes_of(rejected)), "is cordoned", "are cordoned")


def name_asks(question: AskQuestion, rejected: Rejected) -> Iterator[Ask]:
    name = question.info.pod.spec.node_name
    yield Ask(
        tuple(nodes_of(rejected)),
        f"is not {name}, which the pod's spec.nodeName names",
        f"are not {name}, which the pod's spec.nodeName names",
    )


def feature_asks(question: AskQuestion, rejected: Rejected) -> Iterator[Ask]:
    """Yields an ask for each set of features that nodes do not declare."""
    lacks = ((name, ", ".join(lacking_features(question, name))) for name in nodes_of(rejected))
    for features, names in nodes_by_lack(lacks).items():
        lack = f"declare the feature {features}, which the pod needs"
        yield Ask(names, f"does not {lack}", f"do not {lack}")


def lacking_features(question: AskQuestion, name: str) -> list[str]:
    """Returns the features that the pod needs and a node does not declare, sorted."""
    declared = _node(question, name).status.declared_features
    return sorted(needed_features(question.info.pod) - set(declared))


def taint_asks(question: AskQuestion, rejected: Rejected) -> Iterator[Ask]:
    """Yields an ask for each taint that is, on some node, the first that the pod does not
    tolerate.
    """
    taints = ((name, first_taint(question, name)) for name in nodes_of(rejected))
    for (key, value, effect), names in nodes_by_lack(taints).items():
        taint = f"{key}={value}:{effect}" if value else f"{key}:{effect}"
        yield Ask(names, f"has the taint {taint}", f"have the taint {taint}")


def first_taint(question: AskQuestion, name: str) -> tuple[str, str, str]:
    """Returns the key, value and effect of the first taint of a node that the pod does not
    tolerate.
    """
    tolerations = question.info.template.tolerations
    return next(
        (taint.key, taint.value, taint.effect)
        for taint in _node(question, name).spec.taints
        if taint.effect in HARD_EFFECTS and not tolerations.tolerate(taint)
    )


def label_asks(question: AskQuestion, rejected: Rejected) -> Iterator[Ask]:
    """Yields an ask for each requirement of node selector and node affinity that nodes fail."""
    groups = nodes_by_lack(
        (node, first_lack(question.info.pod, _node(question, node))) for node in nodes_of(rejected)
    )
    for lack, names in groups.items():
        if lack is None:
            yield Ask(
                names, "is left out by the configuration", "are left out by the configuration"
            )
        elif lack.of_name:
            yield _name_ask(question, lack.requirement, names)
        else:
            yield _label_ask(question, lack.requirement, names)


def first_lack(pod: Pod, node: Node) -> NodeLack | None:
    """Returns the first requirement that the node fails: of the node selector, or else of the term
    that fails fewest.
    """
    labels, fields = node.metadata.labels, {HOSTNAME: node.metadata.name}
    for key, value in sorted(pod.spec.node_selector.items()):
        if labels.get(key) != value:
            return NodeLack(NodeSelectorRequirement(key=key, operator="In", values=(value,)))
    lacks = [_lacks(term, labels, fields) for term in _terms(pod)]
    return min(lacks, key=len)[0] if lacks and all(lacks) else None


def _lacks(
    term: NodeSelectorTerm, labels: Mapping[str, str], fields: Mapping[str, str]
) -> list[NodeLack]:
    of_labels = [r for r in term.match_expressions if not requirement_matches(r, labels)]
    of_name = [r for r in term.match_fields if not requirement_matches(r, fields)]
    return [*map(NodeLack, of_labels), *(NodeLack(r, True) for r in of_name)]


def _terms(pod: Pod) -> tuple[NodeSelectorTerm, ...]:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    selector = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return selector.node_selector_terms if selector else ()


def _name_ask(
    question: AskQuestion, requirement: NodeSelectorRequirement, names: tuple[str, ...]
) -> Ask:
    values = listed(requirement.values)
    if requirement.operator == "In" and not set(requirement.values) & question.nodes.keys():
        guess = _spelling_question(requirement.values, question.nodes)
        other = f"not {values}, which does not exist{guess}"
        return Ask(names, f"is {other}", f"are {other}")
    word = "not named" if requirement.operator == "In" else "named"
    return Ask(names, f"is {word} {values}", f"are {word} {values}")


def _label_ask(
    question: AskQuestion, requirement: NodeSelectorRequirement, names: tuple[str, ...]
) -> Ask:
    key = requirement.key
    labels = [info.labels for info in question.nodes.values()]
    present = sorted({of_node[key] for of_node in labels if key in of_node})
    needs = _key_and_value(requirement) or required(requirement)
    hint = ""
    if requirement.operator in ("In", "Exists", "Gt", "Lt") and not present:
        keys = sorted({name for of_node in labels for name in of_node})
        hint = f" (no node has the label {key}{_spelling_question((key,), keys)})"
    elif requirement.operator == "In" and not set(requirement.values) & set(present):
        meant = "" if key in _NOT_MISTYPED else _spelling_question(requirement.values, present)
        hint = f" (nodes have {listed(present)}{meant})"
    lacks = "does not have", "do not have"
    if requirement.operator in ("NotIn", "DoesNotExist"):
        lacks = "is excluded by", "are excluded by"
    return Ask(names, f"{lacks[0]} {needs}{hint}", f"{lacks[1]} {needs}{hint}")


def _key_and_value(requirement: NodeSelectorRequirement) -> str:
    """Returns key=value for a requirement of one value, otherwise ""."""
    single = requirement.operator == "In" and len(requirement.values) == 1
    return f"{requirement.key}={requirement.values[0]}" if single else ""


def _spelling_question(words: Iterable[str], possible: Iterable[str]) -> str:
    """Returns a question about a possible word with almost the same letters, or ""."""
    choices = list(possible)
    near = [match for word in words for match in get_close_matches(word, choices, 1)]
    return f"; did you mean {near[0]}?" if near else ""


def _node(question: AskQuestion, name: str) -> Node:
    node = question.nodes[name].node
    assert node is not None, name
    return node
