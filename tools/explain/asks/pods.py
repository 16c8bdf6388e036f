"""Nodes that the pod may not use because of other pods: affinity, spreading and host ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from berth.actors.scheduling.kube.labels import Selector
from berth.actors.scheduling.model.affinity_terms import AffinityTerm
from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.pod_template import WILDCARD_IP
from berth.actors.scheduling.plugins.inter_pod_affinity import (
    REASON_AFFINITY,
    REASON_ANTI_AFFINITY,
)
from berth.actors.scheduling.plugins.pod_topology_spread import HARD, REASON_LABEL

from ..words import all_of, required
from .ask import Ask, Question, grouped


class _Lack(msgspec.Struct, frozen=True):
    """What a node lacks because of other pods, as in Ask, without the pods that are in the way."""

    one: str
    many: str
    remedy: str = ""

    @classmethod
    def of_label(cls, key: str, by: str) -> _Lack:
        label = f"the label {key}, which {by} needs"
        return cls(f"does not have {label}", f"do not have {label}", f"label the nodes with {key}")

    @classmethod
    def of_room(cls, why: str) -> _Lack:
        return cls(
            f"is kept free by {why}", f"are kept free by {why}", "or change the anti-affinity"
        )


def affinity_asks(question: Question, reasons: Mapping[str, Sequence[str]]) -> Iterator[Ask]:
    """Yields the asks of InterPodAffinity, by its `reasons` for each node."""
    lacks = {node: _affinity_lack(question, node, of) for node, of in reasons.items()}
    for lack, nodes in grouped((node, lack) for node, (lack, _) in lacks.items()).items():
        obstacles = list(dict.fromkeys(pod for node in nodes if (pod := lacks[node][1])))
        if not obstacles:
            yield Ask(nodes, lack.one, lack.many, lack.remedy)
            continue
        more = f" and {len(obstacles) - 1} more" if len(obstacles) > 1 else ""
        way = f" (in the way: {obstacles[0]}{more})"
        remedy = f"remove {obstacles[0]}, {lack.remedy}"
        yield Ask(nodes, f"{lack.one}{way}", f"{lack.many}{way}", remedy)


def _affinity_lack(question: Question, node: str, reasons: Sequence[str]) -> tuple[_Lack, str]:
    """Returns what the node lacks, and a pod that is in the way, or ""."""
    terms, labels = question.info.template.affinity_terms, question.nodes[node].labels
    if REASON_AFFINITY in reasons:
        for term in terms.required:
            if term.topology_key not in labels:
                return _Lack.of_label(term.topology_key, "the pod affinity"), ""
        for term in terms.required:
            if not any(_selects(question, term, pod) for pod in _domain(question, term, node)):
                return _friendless(question, term), ""
    if REASON_ANTI_AFFINITY in reasons:
        for term in terms.required_anti:
            for pod in _domain(question, term, node):
                if _selects(question, term, pod):
                    what = f"{selection(term.selector)} in the same {term.topology_key}"
                    return _Lack.of_room(f"the pod's anti-affinity to {what}"), pod.key
    for other in question.nodes.values():
        for pod in other.pods.values():
            for term in pod.template.affinity_terms.required_anti:
                same = labels.get(term.topology_key) == other.labels.get(term.topology_key)
                if same and _selects(question, term, question.info):
                    return _Lack.of_room("another pod's anti-affinity"), pod.key
    text = "; ".join(reasons)
    return _Lack(text, text), ""


def _friendless(question: Question, term: AffinityTerm) -> _Lack:
    what = selection(term.selector)
    if any(_selects(question, term, pod) for pod in _all_pods(question)):
        lack = f"no pod with {what} in the same {term.topology_key}"
        return _Lack(f"has {lack}", f"have {lack}", "start such a pod there, or move the others")
    namespaces = ", ".join(sorted(term.namespaces))
    where = f" in the namespace {namespaces}" if namespaces else ""
    lack = f"no pod with {what}: there is none{where}"
    remedy = f"start a pod with {what}, or change the affinity"
    return _Lack(f"has {lack}", f"have {lack}", remedy)


def _domain(question: Question, term: AffinityTerm, node: str) -> Iterator[PodInfo]:
    """Yields the pods in the same topology as a node."""
    value = question.nodes[node].labels.get(term.topology_key)
    if value is not None:
        for info in question.nodes.values():
            if info.labels.get(term.topology_key) == value:
                yield from info.pods.values()


def _all_pods(question: Question) -> Iterator[PodInfo]:
    return (pod for info in question.nodes.values() for pod in info.pods.values())


def _selects(question: Question, term: AffinityTerm, pod: PodInfo) -> bool:
    metadata = pod.pod.metadata
    labels = question.namespaces.get(metadata.namespace, {})
    return term.matches(metadata.namespace, metadata.labels, labels)


def selection(selector: Selector) -> str:
    parts = [
        f"{r.key}={r.values[0]}" if r.operator == "In" and len(r.values) == 1 else required(r)
        for r in selector.requirements
    ]
    return all_of(parts)


def spread_asks(question: Question, reasons: Mapping[str, Sequence[str]]) -> Iterator[Ask]:
    """Yields the asks of PodTopologySpread, by its `reasons` for each node."""
    constraints = question.info.pod.spec.topology_spread_constraints
    hard = [c for c in constraints if c.when_unsatisfiable == HARD]

    keys = " and ".join(f"{c.topology_key} (maxSkew {c.max_skew})" for c in hard)
    too_many = f"would have too many of the pods that are spread over {keys}"
    remedy = "raise maxSkew, or make room in the topologies with fewer of them"

    def lack(node: str, of: Sequence[str]) -> _Lack:
        if REASON_LABEL not in of:
            return _Lack(too_many, too_many, remedy)
        labels = question.nodes[node].labels
        missing = next((c.topology_key for c in hard if c.topology_key not in labels), "")
        return _Lack.of_label(missing, "the spreading")

    for what, nodes in grouped((n, lack(n, of)) for n, of in reasons.items()).items():
        yield Ask(nodes, what.one, what.many, what.remedy)


def port_asks(question: Question, reasons: Mapping[str, Sequence[str]]) -> Iterator[Ask]:
    """Yields the asks of NodePorts: the host ports in use, and a pod that has each."""
    ports = question.info.template.host_ports

    def user(info: NodeInfo) -> tuple[str, str]:
        for port in ports:
            for pod in info.pods.values():
                for used in pod.template.host_ports:
                    same = (used.protocol, used.port) == (port.protocol, port.port)
                    if same and (used.ip == port.ip or WILDCARD_IP in (used.ip, port.ip)):
                        return f"{port.port}/{port.protocol}", pod.key
        return "", ""

    by_port: dict[str, list[tuple[str, str]]] = {}
    for node in reasons:
        port, pod = user(question.nodes[node])
        by_port.setdefault(port, []).append((node, pod))
    for port, users in by_port.items():
        lack = f"the host port {port} in use (by {users[0][1]} on {users[0][0]})"
        yield Ask(
            tuple(node for node, _ in users),
            f"has {lack}",
            f"have {lack}",
            f"remove {users[0][1]}, or use another hostPort",
        )
