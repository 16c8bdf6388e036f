"""VolumeBinding: places a pod where its volumes are, or can be made.

`plugin` has the extension points, `pod_volumes` what a pod's claims ask of the nodes, `matching`
the available volumes, `provisioning` where new volumes can be made, and `binding` the writes.
"""
