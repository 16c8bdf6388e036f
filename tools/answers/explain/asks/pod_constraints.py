"""Nodes that the pod may not use because of other pods: affinity, spreading and host ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from berth.actors.scheduling.kube.core import TopologySpreadConstraint
from berth.actors.scheduling.kube.labels import Selector
from berth.actors.scheduling.model.affinity_terms import AffinityTerm
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.pod_template import WILDCARD_IP
from berth.actors.scheduling.plugins.inter_pod_affinity import (
    REASON_AFFINITY,
    REASON_ANTI_AFFINITY,
)
from berth.actors.scheduling.plugins.pod_topology_spread import HARD, REASON_LABEL
from berth.actors.scheduling.plugins.spread_domains import Eligibility, constraint_of

from ..words import all_of, required
from .ask import Ask, AskQuestion, Rejected, nodes_by_lack, nodes_of


class _Lack(msgspec.Struct, frozen=True):
    """What a node lacks because of other pods, as in Ask, without the names of these pods."""

    one: str
    many: str

    @classmethod
    def of_label(cls, key: str, by: str) -> _Lack:
        label = f"the label {key}, which {by} needs"
        return cls(f"does not have {label}", f"do not have {label}")

    @classmethod
    def of_room(cls, why: str) -> _Lack:
        return cls(f"is kept free by {why}", f"are kept free by {why}")


def affinity_asks(question: AskQuestion, rejected: Rejected) -> Iterator[Ask]:
    others = OtherPods(question)
    lacks = {
        node: _affinity_lack(question, others, node, reasons)
        for reasons, nodes in rejected.items()
        for node in nodes
    }
    for lack, nodes in nodes_by_lack((node, lack) for node, (lack, _) in lacks.items()).items():
        obstacles = list(dict.fromkeys(pod for node in nodes if (pod := lacks[node][1])))
        if not obstacles:
            yield Ask(nodes, lack.one, lack.many)
            continue
        more = f" and {len(obstacles) - 1} more" if len(obstacles) > 1 else ""
        way = f" (in the way: {obstacles[0]}{more})"
        yield Ask(nodes, f"{lack.one}{way}", f"{lack.many}{way}")


class OtherPods:
    """The pods of the cluster that count for the pod's affinity; each term looks at them once."""

    def __init__(self, question: AskQuestion) -> None:
        self._question = question
        self._selected: dict[AffinityTerm, dict[str | None, str]] = {}
        self._refusing: dict[str, dict[str, tuple[int, str]]] | None = None

    def selected(self, term: AffinityTerm) -> dict[str | None, str]:
        """Returns the first pod that a term selects in each topology, by the value of the label;
        None stands for the nodes without the label.
        """
        by_value = self._selected.get(term)
        if by_value is None:
            by_value = self._selected[term] = {}
            for info in self._question.nodes.values():
                value = info.labels.get(term.topology_key)
                if value not in by_value:
                    for pod in info.pods.values():
                        if _selects(self._question, term, pod):
                            by_value[value] = pod.key
                            break
        return by_value

    def refusing(self, labels: Mapping[str, str]) -> str:
        """Returns the first pod whose anti-affinity keeps the pod off nodes with these labels; ""
        if there is none.
        """
        if self._refusing is None:
            self._refusing = {}
            number = 0
            for info in self._question.nodes.values():
                for pod in info.pods.values():
                    for term in pod.template.affinity_terms.required_anti:
                        value = info.labels.get(term.topology_key)
                        if value is None:  # In no topology; the term keeps nobody off.
                            continue
                        if _selects(self._question, term, self._question.info):
                            number += 1
                            values = self._refusing.setdefault(term.topology_key, {})
                            values.setdefault(value, (number, pod.key))
        of_key = (of.get(labels[key]) for key, of in self._refusing.items() if key in labels)
        return min(filter(None, of_key), default=(0, ""))[1]


def _affinity_lack(
    question: AskQuestion, others: OtherPods, node: str, reasons: Sequence[str]
) -> tuple[_Lack, str]:
    """Returns what the node lacks, and the pod that stands in the way, "" without one."""
    terms, labels = question.info.template.affinity_terms, question.nodes[node].labels
    if REASON_AFFINITY in reasons:
        for term in terms.required:
            if term.topology_key not in labels:
                return _Lack.of_label(term.topology_key, "the pod affinity"), ""
        for term in terms.required:
            if labels[term.topology_key] not in others.selected(term):
                return _lack_of_matching_pods(term, is_somewhere=bool(others.selected(term))), ""
    if REASON_ANTI_AFFINITY in reasons:
        for term in terms.required_anti:
            pod = others.selected(term).get(labels.get(term.topology_key), "")
            if pod and term.topology_key in labels:
                what = f"{selection(term.selector)} in the same {term.topology_key}"
                return _Lack.of_room(f"the pod's anti-affinity to {what}"), pod
    pod = others.refusing(labels)
    if pod:
        return _Lack.of_room("another pod's anti-affinity"), pod
    text = "; ".join(reasons)
    return _Lack(text, text), ""


def _lack_of_matching_pods(term: AffinityTerm, *, is_somewhere: bool) -> _Lack:
    if term.selector.nothing:
        lack = "no pod that its affinity selects: a term without labelSelector selects none"
        return _Lack(f"has {lack}", f"have {lack}")
    what = selection(term.selector)
    if is_somewhere:
        lack = f"no pod with {what} in the same {term.topology_key}"
        return _Lack(f"has {lack}", f"have {lack}")
    namespaces = ", ".join(sorted(term.namespaces))
    where = f" in the namespace {namespaces}" if namespaces else ""
    lack = f"no pod with {what}: there is none{where}"
    return _Lack(f"has {lack}", f"have {lack}")


def _selects(question: AskQuestion, term: AffinityTerm, pod: PodInfo) -> bool:
    metadata = pod.pod.metadata
    labels = question.namespaces.get(metadata.namespace, {})
    return term.matches(metadata.namespace, metadata.labels, labels)


def selection(selector: Selector) -> str:
    parts = [
        f"{r.key}={r.values[0]}" if r.operator == "In" and len(r.values) == 1 else required(r)
        for r in selector.requirements
    ]
    return all_of(parts)


def spread_asks(question: AskQuestion, rejected: Rejected) -> Iterator[Ask]:
    constraints = question.info.pod.spec.topology_spread_constraints
    hard = [c for c in constraints if c.when_unsatisfiable == HARD]

    keys = " and ".join(_exceeded_constraints(question, hard))
    spread = f"are spread over {keys}" if hard else "the default constraints spread"
    too_many = f"would have too many of the pods that {spread}"

    def lack(node: str, of: Sequence[str]) -> _Lack:
        if REASON_LABEL not in of:
            return _Lack(too_many, too_many)
        if not hard:
            label = "have a label that the default constraints spread by"
            return _Lack(f"does not {label}", f"do not {label}")
        labels = question.nodes[node].labels
        missing = next((c.topology_key for c in hard if c.topology_key not in labels), "")
        return _Lack.of_label(missing, "the spreading")

    lacks = ((node, lack(node, of)) for of, nodes in rejected.items() for node in nodes)
    for what, nodes in nodes_by_lack(lacks).items():
        yield Ask(nodes, what.one, what.many)


def _exceeded_constraints(
    question: AskQuestion, hard: Sequence[TopologySpreadConstraint]
) -> Iterator[str]:
    """Yields the topology key of each constraint that the node would exceed, with the numbers of
    pods. If there are fewer domains than minDomains, the least number is 0.
    """
    resolved = tuple(constraint_of(c, Selector(), "") for c in hard)
    eligible = Eligibility().of(resolved, question.info, question.snapshot, labelled=True)
    for constraint, where in zip(resolved, eligible, strict=True):
        least = constraint.min_domains
        few = (
            f", counted from 0, with {where.number} of minDomains {least}"
            if where.number < least and least > 1
            else ""
        )
        yield f"{constraint.topology_key} (maxSkew {constraint.max_skew}{few})"


def port_asks(question: AskQuestion, rejected: Rejected) -> Iterator[Ask]:
    """Yields the asks of NodePorts: the host ports in use, each with a pod that uses it."""
    by_port: dict[str, list[tuple[str, str]]] = {}
    for node in nodes_of(rejected):
        number, protocol, pod = port_in_use(question, node)
        by_port.setdefault(f"{number}/{protocol}" if pod else "", []).append((node, pod))
    for port, users in by_port.items():
        lack = f"the host port {port} in use (by {users[0][1]} on {users[0][0]})"
        yield Ask(tuple(node for node, _ in users), f"has {lack}", f"have {lack}")


def port_in_use(question: AskQuestion, node: str) -> tuple[int, str, str]:
    """Returns the first host port of the pod that is in use on a node, with its protocol and the
    pod that uses it; (0, "", "") if there is none.
    """
    for port in question.info.template.host_ports:
        for pod in question.nodes[node].pods.values():
            for used in pod.template.host_ports:
                same = (used.protocol, used.port) == (port.protocol, port.port)
                if same and (used.ip == port.ip or WILDCARD_IP in (used.ip, port.ip)):
                    return port.port, port.protocol, pod.key
    return 0, "", ""
