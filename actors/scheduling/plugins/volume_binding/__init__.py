"""VolumeBinding: places a pod on a node that can use its volumes, or get new ones for it.

`plugin` has the extension points, `pod_volumes` the nodes that suit the claims of a pod, `matching`
the available volumes, `provisioning` the places for new ones, and `binding` the writes.
"""
