"""What plays Kubernetes' other programs: a cluster without machines.

    apiserver/      the embedded API server over HTTP: journal, watches, connections
    controllers/    the runner of the controllers, and the table of them
    kubelets/       hollow kubelets, which play the stages of pods and nodes
    drivers/        hollow drivers of devices
    negotiation/    the older negotiation of devices, as a plugin package
    faults/         what can go wrong, as data, and which of it is met
    named_functions functions of users, for scripts of containers and models of usage

The decisions are in tools/kubernetes. Only bench, testing and tests import this room.
"""
