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
"""
