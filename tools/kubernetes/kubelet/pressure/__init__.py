"""Node-pressure eviction as the kubelet does it: decisions of one node, as pure functions of time.

Mirrors pkg/kubelet/eviction, and the kubelet's admission, preemption and oom_score_adj.

    kubelet_settings  what a KubeletConfiguration sets, for the nodes that it selects
    thresholds        signals, and when they mean pressure
    observations      what is available on a node: memory, disks, inodes, process ids
    eviction_ranking  in which order pods are evicted
    messages          what an eviction says
    local_storage     pods that exceed their own limits of local storage
    image_garbage     which unused images go when a disk is nearly full
    eviction_manager  the state machine: observations and pods in, conditions and evictions out
    oom               which container the kernel kills
    pod_admission     which pods a node rejects, and what a critical pod preempts
    admitted_pods     the admitted pods, and whether there is room for more
    node_pressure     all of these for one node: when to look next, and what to write
"""
