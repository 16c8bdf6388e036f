"""Resizes of pods in place: what a kubelet has allocated to a pod, and when it changes that.

Mirrors pkg/kubelet/allocation, and the actuation in pkg/kubelet/kuberuntime.

    allocation    the resources that a pod has, as opposed to those that its spec requests
    actuation     what becomes of the containers of a pod whose allocation has changed
    resizes       the state machine of a node: versions of pods in, conditions and events out
"""
