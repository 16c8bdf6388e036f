"""The memory from pod to pod, as a drop-in for the plain candidates.

`recall` has the memories of the latest templates of pods, `memory` the answers of rules about one
template, and `candidates` those of a pod, made from its memory. `nomination_answers` keeps answers
about nodes with nominated pods, `rejections` about pods that fit nowhere. The memory never changes
a decision.

Most pods are made from a template: same namespace, labels, annotations and spec. From the second
pod of a template on, recall keeps what the plugins answer about every node, and asks them again
only about the rows that changed since. It does so for the 64 latest templates. A plugin declares in
`depends_on` what its answers depend on (docs/plugins.md).

Pods of a template may use different claims, as those of a stateful set do. So the rules with
`CLAIMS` are asked for each pod, and the answers of the other rules are kept. A rule may also say in
PreFilter that it would pass every node, whatever pods run there (`passes_all`): its Filter is then
left out, in what-if questions too. All answers of a template are dropped when an object of a kind
that one of the remembered plugins looks up changes.

Sampling, normalisation and totals run for every pod. Where no node is left, the rejections are kept
too if every filter reads single rows; otherwise all filters run again to give the reasons. If a
plugin fails while it is asked for an answer to keep, the memory of the template is dropped and the
pod is decided with the plain candidates.

A bookmark says which rows, nodes and nominations changed since an answer was kept.
`OpportunisticBatching` has the same purpose in kube-scheduler, but gives up where default spreading
constraints exist. berth does not remember rules that read the cluster, and remembers the others.
Without the feature gate recall remembers nothing.

Some plugins keep answers of their own, with or without recall, where they read the cluster:
topology spreading keeps the eligible nodes of a template (spread_domains.py), preemption its dry
runs (dry_runs.py) and the lowest priority on each node (lowest.py), all with a bookmark, and
DynamicResources what each node offers. Texts that were read once are kept in caches of a fixed
size: quantities, times and the expressions of selectors.
"""
