"""The fields of causes that the text of a reason does not have: they are read from the pod and the
cluster of the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cached_property
from typing import Any

import numpy as np
from msgspec.structs import replace

from berth.actors.scheduling.framework.cycle_state import CycleState
from berth.actors.scheduling.framework.interface import Plugin
from berth.actors.scheduling.framework.status import Status
from berth.actors.scheduling.kube.core import TopologySpreadConstraint
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.scheduling.plugins.pod_topology_spread import HARD, PodTopologySpread

from ..asks.ask import AskQuestion, ask_question
from ..asks.node_restrictions import first_lack, first_taint, lacking_features
from ..asks.pod_constraints import OtherPods, port_in_use
from ..asks.resource_shortages import PODS, quantity
from ..cause import Cause, CauseConstraint, CauseRequirement, CauseTaint
from ..device_words import DeviceSupply
from ..volume_words import Demand, demands

Fields = dict[str, Any]
NO_DEVICES = DeviceSupply()
# The fields that may differ between the nodes that are counted together.
OF_A_NODE = {"allocatable": "", "free": "", "shortage": "", "pod": ""}
# The codes of which the other fields are the same on all nodes.
_ALIKE = {"TooManyPods", "NodeNameMismatch"}


class CauseDetails:
    """The details of a pod's causes, with the plugins at Filter. `devices` are what the pod's
    claims would get.
    """

    def __init__(
        self,
        info: PodInfo,
        snapshot: Snapshot,
        filters: Iterable[Plugin],
        devices: DeviceSupply = NO_DEVICES,
    ) -> None:
        self._info, self._snapshot, self._devices = info, snapshot, devices
        self._filters = filters
        self._demands: dict[str, list[Demand]] = {}

    def of_pod(self, cause: Cause) -> Cause:
        """Returns a cause that keeps the pod from all nodes, with all that is known of it."""
        if cause.code != "ClaimUnbound":
            return cause
        unbound = [of.claim for of in self._of(cause.plugin) if of.left_out is None]
        return replace(cause, claims=tuple(dict.fromkeys(filter(None, unbound))))

    def on_node(self, node: str, cause: Cause) -> Cause:
        """Returns the cause for which a node was rejected, with all that is known of it."""
        details = _DETAILS.get(cause.code)
        fields = details(self, node, cause) if details and node in self._question.nodes else {}
        return replace(cause, **fields) if fields else cause

    def on_nodes(self, nodes: Sequence[str], cause: Cause) -> list[Cause]:
        """Returns the cause for which these nodes were rejected, with their number: one for those
        that differ at most in the fields OF_A_NODE.
        """
        details, known = _DETAILS.get(cause.code), self._question.nodes
        if details is None or any(node not in known for node in nodes[:1]):
            return [replace(cause, nodes=len(nodes))]
        if cause.code in _ALIKE:
            return [replace(cause, nodes=len(nodes), **details(self, nodes[0], cause))]
        if cause.resource:
            return [
                replace(
                    cause, nodes=len(nodes), **self.resource(self._closest(nodes, cause), cause)
                )
            ]
        groups: dict[tuple[Any, ...], tuple[Fields, list[str]]] = {}
        for node in nodes:
            fields = details(self, node, cause) if node in known else {}
            key = tuple(value for name, value in fields.items() if name not in OF_A_NODE)
            groups.setdefault(key, (fields, []))[1].append(node)
        return [replace(cause, nodes=len(of), **fields) for fields, of in groups.values()]

    def _closest(self, nodes: Sequence[str], cause: Cause) -> str:
        """Returns the node with most of a resource left."""
        name, infos = cause.resource, self._question.nodes

        def left(node: str) -> int:
            return infos[node].allocatable.get(name, 0) - infos[node].requested.get(name, 0)

        return max((node for node in nodes if node in infos), key=left)

    @cached_property
    def _question(self) -> AskQuestion:
        return ask_question(self._info, self._snapshot)

    @cached_property
    def _others(self) -> OtherPods:
        return OtherPods(self._question)

    def _of(self, plugin: str) -> list[Demand]:
        if plugin not in self._demands:
            self._demands[plugin] = demands(self._info, self._snapshot, {plugin})
        return self._demands[plugin]

    def resource(self, node: str, cause: Cause) -> Fields:
        """Returns the amounts of a resource."""
        name, info = cause.resource, self._question.nodes[node]
        requested = self._info.template.spec_requests.get(name, 0)
        allocatable = info.allocatable.get(name, 0)
        free = allocatable - info.requested.get(name, 0)
        return {
            "requested": quantity(name, requested),
            "allocatable": quantity(name, allocatable),
            "free": quantity(name, free),
            "shortage": quantity(name, requested - free),
        }

    def most_pods(self, node: str, _: Cause) -> Fields:
        """Returns how many pods a node may have."""
        return {"allocatable": str(self._question.nodes[node].allocatable.get(PODS, 0))}

    def taint(self, node: str, _: Cause) -> Fields:
        """Returns the first taint that is not tolerated."""
        return {"taint": CauseTaint(*first_taint(self._question, node))}

    def requirement(self, node: str, cause: Cause) -> Fields:
        """Returns the first requirement that a node does not meet."""
        if cause.plugins not in ((), ("NodeAffinity",)):
            return {}
        of_node = self._question.nodes[node].node
        lack = None if of_node is None else first_lack(self._info.pod, of_node)
        if lack is None:
            return {}
        of = lack.requirement
        return {"requirement": CauseRequirement(of.key, of.operator, tuple(of.values))}

    def node_name(self, _: str, cause: Cause) -> Fields:
        """Returns the node that the pod names."""
        return {"node": self._info.pod.spec.node_name}

    def features(self, node: str, _: Cause) -> Fields:
        """Returns the features that a node lacks."""
        return {"features": tuple(lacking_features(self._question, node))}

    def port(self, node: str, _: Cause) -> Fields:
        """Returns the host port that is in use."""
        port, protocol, pod = port_in_use(self._question, node)
        return {"port": port, "protocol": protocol, "pod": pod}

    def affinity(self, node: str, _: Cause) -> Fields:
        """Returns the topology without a pod for the affinity."""
        labels = self._question.nodes[node].labels
        for term in self._info.template.affinity_terms.required:
            if labels.get(term.topology_key) not in (self._others.selected(term).keys() - {None}):
                return {"label": term.topology_key}
        return {}

    def anti_affinity(self, node: str, _: Cause) -> Fields:
        """Returns the topology and the pod that are kept away from."""
        labels = self._question.nodes[node].labels
        for term in self._info.template.affinity_terms.required_anti:
            pod = self._others.selected(term).get(labels.get(term.topology_key), "")
            if pod and term.topology_key in labels:
                return {"label": term.topology_key, "pod": pod}
        return {}

    def existing_pod(self, node: str, _: Cause) -> Fields:
        """Returns the pod whose anti-affinity is in the way."""
        return {"pod": self._others.refusing(self._question.nodes[node].labels)}

    def spread(self, node: str, cause: Cause) -> Fields:
        """Returns the constraints, and the label that a node lacks."""
        labels = self._question.nodes[node].labels
        lacking = [each for each in self._hard if each.topology_key not in labels]
        if cause.code == "TopologyLabelMissing" and lacking:
            return {
                "label": lacking[0].topology_key,
                "constraints": tuple(map(_constraint, lacking)),
            }
        exceeded = [
            each for each, nodes in zip(self._hard, self._exceeding, strict=True) if node in nodes
        ]
        return {"constraints": tuple(map(_constraint, exceeded or self._hard))}

    @cached_property
    def _hard(self) -> list[TopologySpreadConstraint]:
        constraints = self._info.pod.spec.topology_spread_constraints
        return [each for each in constraints if each.when_unsatisfiable == HARD]

    @cached_property
    def _exceeding(self) -> list[Set[str]]:
        """The nodes that each hard constraint would reject as the pod's only one; none if there is
        just one.
        """
        plugin = next((each for each in self._filters if isinstance(each, PodTopologySpread)), None)
        if plugin is None or len(self._hard) < 2:
            return [frozenset() for _ in self._hard]
        return [self._rejected_by(plugin, constraint) for constraint in self._hard]

    def _rejected_by(
        self, plugin: PodTopologySpread, constraint: TopologySpreadConstraint
    ) -> Set[str]:
        pod, snapshot = self._info.pod, self._snapshot
        spec = replace(pod.spec, topology_spread_constraints=(constraint,))
        alone, state = PodInfo(replace(pod, spec=spec)), CycleState()
        answer = plugin.pre_filter(state, alone, snapshot)
        if isinstance(answer, Status) and not answer.ok:
            return frozenset()
        nodes = snapshot.rows(snapshot.columns.order)
        verdicts = plugin.filter(state, alone, nodes)
        marked = () if verdicts is None else np.flatnonzero(verdicts.codes).tolist()
        return {nodes.name(position) for position in marked}

    def volume(self, node: str, cause: Cause) -> Fields:
        """Returns the claim or the driver of a volume."""
        for demand in self._of(cause.plugin):
            if demand.left_out is None or node in demand.left_out:
                return {"claim": demand.claim, "driver": demand.driver}
        return {}

    def device(self, node: str, _: Cause) -> Fields:
        """Returns the claim and the request that lack devices."""
        for short in self._devices.short:
            if short.nodes is None or node in short.nodes:
                return {"claim": short.claim, "request": short.request}
        return {}


def _constraint(constraint: TopologySpreadConstraint) -> CauseConstraint:
    return CauseConstraint(constraint.topology_key, constraint.max_skew)


_DETAILS: Mapping[str, Callable[[CauseDetails, str, Cause], Fields]] = {
    "InsufficientResource": CauseDetails.resource,
    "TooManyPods": CauseDetails.most_pods,
    "UntoleratedTaint": CauseDetails.taint,
    "NodeSelectorMismatch": CauseDetails.requirement,
    "NodeLeftOut": CauseDetails.requirement,
    "NodeNameMismatch": CauseDetails.node_name,
    "PortTaken": CauseDetails.port,
    "PodAffinityUnmet": CauseDetails.affinity,
    "AntiAffinityViolated": CauseDetails.anti_affinity,
    "ExistingAntiAffinityViolated": CauseDetails.existing_pod,
    "TopologyLabelMissing": CauseDetails.spread,
    "TopologySpreadViolated": CauseDetails.spread,
    "NodeFeatureMissing": CauseDetails.features,
    "ClaimInUse": CauseDetails.volume,
    "VolumeZoneConflict": CauseDetails.volume,
    "TooManyVolumes": CauseDetails.volume,
    "VolumeNodeAffinityConflict": CauseDetails.volume,
    "NoVolumeToBind": CauseDetails.volume,
    "InsufficientStorage": CauseDetails.volume,
    "DeviceShortage": CauseDetails.device,
    "DeviceClaimElsewhere": CauseDetails.device,
}
