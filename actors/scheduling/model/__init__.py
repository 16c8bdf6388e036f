"""The scheduler's model of the cluster: PodInfo, NodeInfo, node tree, Snapshot, NodeColumns.

Node state is a struct of arrays, NodeColumns, with one row for each node: int64 columns of
allocatable and requested resources, and a column of value codes for each label key that some rule
reads. Nodes with equal taints share a class code, so that a rule is decided once for each class. A
filter or a score is a few NumPy operations over all rows. A row is rewritten only if its NodeInfo
changed since the last snapshot. Sums end at the largest int64.

Constraints between pods are counted, not searched. Pods are grouped by namespace and labels, a
selector is matched once for each group, and its column of counts is kept up to date as pods come
and go (pod_counts.py). The count of a zone is one `bincount` over the topology's column.

A pod may ask for a great deal: an API server accepts 14,000 terms. They are read once for its
template. Terms about nodes are grouped by label and decided for the label's values
(node_selection.py). Terms about pods are put into one column for each topology, and those that
match a pod are looked up by its labels (selector_index.py). So the cost of such a pod grows with
its terms, not with terms times nodes.

Questions of the kind "what if this pod were there too" run the same code on a few rows
(what_if.py). Integer arithmetic is that of Kubernetes, with truncating division.
"""
