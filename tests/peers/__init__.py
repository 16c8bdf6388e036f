"""Other people's test suites against the embedded API server.

    python -m tests.peers FOLDER [SUITE ...]
    python -m tests.peers.kubernetes_e2e PROGRAM KUBECONFIG

FOLDER holds a checkout of each project, by the name of its repository (kr8s-org/kr8s as kr8s).

    suites.yaml      the suites: how each is run, and why some of its tests do not pass
    environments.py  an environment of Python for each suite, in FOLDER/.environments
    clusters.py      a cluster for each suite, with what its containers do (container_ports.py)
    runs.py          runs a suite; what it printed is in FOLDER/.printed
    verdicts.py      compares what came of a suite with the list; the tables
    stand_in/        what takes the place of other programs: a plugin of pytest in place of kind and
                     k3d, commands that do nothing, what containers say
"""
