"""berth: the scheduler as a tree of actors.

Read from the bottom up; a room imports only rooms below it (import-linter holds us to it):

    cli, __main__     the `berth` command
    system            the composition root: the ordered list of actors, the only wiring
    informer queue cache cycle binding leader recorder server
                      one actor a folder: state.py decides (pure), actor.py awaits
    client runtime    the Kubernetes API client; the actor kernel
    messages          every message that crosses a mailbox
    plugins           the in-tree plugins, one file each
    framework         extension points, Status, CycleState, events and hints, the profile runner
    model             PodInfo, NodeInfo, node tree, Snapshot, NodeColumns
    kube              Kubernetes objects, quantities, selectors, taints

`config` (KubeSchedulerConfiguration) stands beside `kube` at the bottom, `tools` on top.
"""
