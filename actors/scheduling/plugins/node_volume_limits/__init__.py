"""NodeVolumeLimits: the nodes that can attach all volumes of a pod.

`plugin` has the extension points, `volumes` the volumes of a pod, `attachments` those that nodes
have, `limits` the limits of CSINodes, and `room` what each node can still attach.
"""
