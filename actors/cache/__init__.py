"""The cache actor: the nodes and the pods on them, including assumed pods.

`handle(message)` of its state takes no time, because nothing in it depends on time. When much has
changed, the actor calls `catch_up` over several turns before it lends the snapshot, so that no
other task waits for long.

Every half minute the cache is compared with the informers' objects, down to the resourceVersion,
and so is the queue with the pending pods among them. The comparison goes in slices, so that nothing
waits for it (docs/debugging.md). A difference that is found twice in a row is put
right, logged as an error and counted in `berth_cache_mended_total`. SIGUSR2 logs every cached node
with its pods and nominated pods, the sizes of queue, cache and binding, and all differences, and
changes nothing. kube-scheduler compares on SIGUSR2 only, and corrects nothing.

A binding whose answer was lost is settled by the watch. If the cache has the pod on the node by
then, the pod counts as bound; otherwise the binding is undone and the pod is tried again. An
attempt that fails before that is undone in any case, also if somebody else bound the pod meanwhile.
"""
