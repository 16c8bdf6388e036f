"""VolumeBinding: places a pod on a node that can use its volumes, or get new ones for it.

`plugin` has the extension points, `pod_volumes` the nodes that suit the claims of a pod, `matching`
the available volumes, `provisioning` the places for new ones, and `binding` the writes.

The volumes, claims and classes are in ClusterObjects (model/cluster_objects.py), which the cache
owns and the snapshot shows. A decision is made before the API server knows it, so Reserve assumes
the volumes and claims that it changes:

- Reserve runs while the snapshot is lent. The cache holds the assumptions back until the snapshot
  is returned; the next snapshot has them.
- An assumption ends when the API server sends a newer version of the object or deletes it, or when
  Unreserve restores it. An assumption of an outdated or missing object is refused and logged. The
  attempt goes on, and its write is refused by the API server.
- Decisions read the snapshot, with the assumptions. PreEnqueue, hints, Reserve and PreBind read
  what the API server last sent, through `handle.objects`.

PreBind writes the choice: `claimRef` into a volume that exists, or the annotation
`volume.kubernetes.io/selected-node` into a claim for which a volume is to be made. Then it waits
until the volume controller has bound every claim, for `bindTimeoutSeconds` at most. It is woken by
changes of these objects, the pod and the node, and gives up if one of them goes or no longer fits.
A pod that waits is a task of the binding actor; it counts as in flight, and keeps its room on the
node. If it gives up, the assumptions are restored and the pod is tried again after a backoff. The
annotation stays at the claim, so the next attempts can only choose the same node, until the
provisioner takes the annotation away.
"""
