"""The older negotiation of devices, as a plugin package: the scheduler's side.

It shows what the plugin interface can do: kinds and claims of the package's own, proposals and
reservations that PreBind writes and takes back, and hints for the drivers' answers. It imports
nothing of berth but `berth.plugin`, and is found through the entry-point group `berth.plugins`, as
the packages of users are (docs/plugins.md). docs/negotiation.md tells the story.

    kinds    the objects of resource.k8s.io/v1alpha2
    claims   the claims that a pod names
    state    a pod's negotiation during an attempt
    plugin   the extension points
    binding  the writes of PreBind
"""
