"""Pods that need all they request in one NUMA node, by NodeResourceTopology objects.

    topologies.py   the custom resource, and the NUMA nodes that it tells of
    demand.py       what the containers of a pod request
    alignment.py    whether containers find room, each in one NUMA node
    zone_scores.py  what the scoring strategies prefer
    match.py        the plugin

Mirrors the NodeResourceTopologyMatch plugin of kubernetes-sigs/scheduler-plugins: its kind, rules
and scores.
"""

from .match import NodeResourceTopologyMatch

__all__ = ["NodeResourceTopologyMatch"]
