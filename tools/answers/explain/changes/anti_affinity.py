"""The pods that keep a pending pod away by anti-affinity, their own or the pending pod's."""

from __future__ import annotations

from collections import defaultdict

from berth.actors.scheduling.model.affinity_terms import AffinityTerm
from berth.actors.scheduling.model.pod_info import PodInfo

from .world import World

Domain = tuple[str, str]  # a topology key and its value


def repelling_pods(world: World) -> dict[Domain, list[PodInfo]]:
    """Returns the pods that keep the pod out of each domain, in the order of their nodes."""
    mine = world.info
    own = mine.template.affinity_terms.required_anti
    namespaces = world.namespaces()

    def matches(term: AffinityTerm, pod: PodInfo) -> bool:
        metadata = pod.pod.metadata
        labels = namespaces.get(metadata.namespace, {})
        return term.matches(metadata.namespace, metadata.labels, labels)

    domains: defaultdict[Domain, list[PodInfo]] = defaultdict(list)
    for node in world.node_infos():
        for other in node.pods.values():
            theirs = other.template.affinity_terms.required_anti
            if not own and not theirs:
                continue
            terms = [term for term in own if matches(term, other)]
            terms += [term for term in theirs if matches(term, mine)]
            for key in {term.topology_key: None for term in terms}:
                if key in node.labels:
                    domains[key, node.labels[key]].append(other)
    return domains
