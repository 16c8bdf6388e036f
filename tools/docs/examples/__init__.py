"""Examples of plugins that people want, each a small package to copy from.

They import berth.plugin alone, as a plugin of one's own does, and their tests berth.testing. The
wheel does not have them. docs/plugin-examples.md tells what each of them does.

    coscheduling/       groups of pods that run all together or not at all
    node_topology/      pods that need all they request in one NUMA node
    load_aware.py       scores by what nodes use, which is listed from time to time
    gpu_packing.py      fills nodes with GPUs one after the other; the vector form
    network_cost.py     scores by the way to pods of the same application
    approval.py         asks an HTTP service whether and where a team's pods may run
    elastic_quota.py    guaranteed and borrowed resources of namespaces
    preemption_toleration.py    preemption that asks the victims' PriorityClass

The older negotiation of devices, tools/cluster/negotiation, is such a plugin too, and the largest;
it is installed with berth.
"""
