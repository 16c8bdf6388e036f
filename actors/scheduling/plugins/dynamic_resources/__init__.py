"""DynamicResources: allocates the devices of ResourceSlices to the ResourceClaims of pods.

The words are those of Kubernetes (k8s.io/dynamic-resource-allocation/structured).

    slice, pool        A driver publishes its devices in ResourceSlices. The slices of a pool belong
                       together, and a generation of them replaces the one before (pools.py).
    counter set        Amounts of a pool that several devices consume, such as the memory of a card
                       that is offered as parts of different sizes.
    consumed capacity  The amounts that a claim takes of a device that several claims may share, by
                       the device's request policies (consumed_capacity.py).
    claim, request,    A claim has requests for devices. A request may be a list of sub-requests, of
    sub-request        which the first that is available is allocated (requests.py).
    constraint         An attribute that is equal, or different, for the devices of a claim
                       (constraints.py).
    allocator          Chooses the devices for all claims of a pod on one node (allocator.py); its
                       result has a device result for each device.
    node allocation    The devices of a node for the claims of a pod. The results for all nodes are
                       kept for pods that request the same (node_allocations.py).
    in-flight          An allocation that Reserve has chosen, and that is not written yet. It holds
    allocation         the devices meanwhile (binding.py).
    allocated state    The devices that claims hold, in flight or written (allocated_state.py). The
                       inventory follows all slices and claims, and keeps it (inventory.py).

On its way, a pod passes plugin.py (the extension points), pod_claims.py (its claims),
node_allocations.py and allocator.py (Filter), allocation_result.py (the status of a claim) and
binding.py (Reserve, PreBind, and their undoing); state.py keeps the results of these steps.
extended.py makes a claim for extended resources that a class provides, and totals.py counts their
devices for scores. events.py has the events after which a rejected pod is tried again.
stale_rows.py, kept_allocations.py and steps.py keep all this cheap; features.py has the gates.

The allocator is costly, so its results are kept. Pods request the same if the specs of their claims
are equal. For such a shape, the plugin keeps the devices that each node gives. The inventory logs
the nodes that a change concerns: the nodes of a pool if its slices changed or if a claim took or
freed one of its devices, all nodes if a slice of the pool serves several. The allocator runs again
for these alone, and only when a decision looks at them and earlier filters let the node pass: an
allocator that fails on a node ends the attempt. A pool of which a request needs all devices, and
which is incomplete or invalid, only rejects the node. A selector is evaluated once for devices that
have the same attributes and capacity.

The other pods wait for the allocator, so steps count what it does, and what PreFilter does to read
the claims. The steps of an attempt come from the account of the pod's namespace. If none are left,
the search stands still: its parts are generators on a list, which stays in memory until the next
attempt, or until a change of the node or its devices makes it worthless.

If a node has no amount of an extended resource that a class provides, NodeResourcesFit leaves the
resource to DynamicResources. If such a resource is among those that NodeResourcesFit or
NodeResourcesBalancedAllocation scores, the node's devices of the class count. Then the plugin reads
slices and claims, so it declares `CLUSTER` in place of `NODE_AND_PODS`. The counts are kept by
node, and renewed for the nodes that the inventory logs.

Between Reserve and the answer of the API server, an InFlightAllocation holds the devices: an object
of the scheduler's own in ClusterObjects, which all profiles see. PreBind writes the finalizer, and
then a status with the allocation and the reservation that names the version of the claim. When the
informer has the written claim, the allocation in flight ends. If PreBind was interrupted, or an
answer was lost, nobody knows whether the status was written; the devices stay taken until the
roll-back has read the claim. A status that is still on its way must not arrive after that, when
another claim has the devices: the roll-back removes the finalizer, so that the claim has a version
that the late write does not name.
"""
