"""Other people's test suites against the embedded API server.

    python -m tests.peers FOLDER [SUITE ...]

FOLDER holds a checkout of each project, by the name of its repository (kr8s-org/kr8s as kr8s). Each
suite runs in an environment of its own (FOLDER/.environments), against a cluster of its own. Only
what makes a cluster for a suite is replaced, by the plugin in stand_in/.
"""
