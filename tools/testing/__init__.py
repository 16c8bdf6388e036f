"""A cluster to try things on. In anybody's test: `berth.testing` is its public face, described in
docs/testing.md, and `pytest_berth` has its fixtures. And as a command: `berth demo`, `simulate`.

The modules.

    plugins/        the kit for tests of plugins
    plugin_commands/ `berth plugin`: begins, lists, checks and tries plugins
    devices/        devices as known drivers publish them
    builders        objects in few words: pod, node, deployment, claim
    added_objects   the objects that a test adds, read as manifests
    cluster         the API server, controllers, kubelets and scheduler of a test in one event loop
    parts           the controllers, kubelets and schedulers of a cluster, behind its faults
    scheduler       a scheduler in that loop, and one that is killed and started again
    faulty_access   the API server as these parts see it, through faults
    faulty_plugin   a plugin that meets faults
    machine         a clock whose program can be stopped
    conditions      what a test waits for
    pods            what a test asks of pods, and findings that say why they are false
    recorded_calls  the calls of a plugin's methods in a cluster
    livelock        pods that are tried again and again
    history         the writes of a cluster, by pod
    blocking        the same cluster for tests without asyncio
    served          a cluster over HTTP on loopback, for other programs
    decisions       one decision, without a cluster
    virtual_time    an event loop in virtual time
    garbage         the garbage collector while clusters run
    own_loop        who may await a cluster, and how another thread asks it
    chaos/          `berth chaos`: faults among real processes
    recording/      `berth record` and `berth replay`: a cluster, decided once more
    demo/           `berth demo`: a toy cluster with a workload, from its start to its end
    simulation/     `berth simulate`: scenarios with faults, and what must hold in them
"""
