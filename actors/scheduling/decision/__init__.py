"""Chooses a node for a pod: `algorithm` is the way from PreFilter to the chosen node.

It asks `candidates`, which are `plain` or remembered (`recall`). `profile` and `rules` run the
plugins, each of which is called under `guard`: it times the call, checks the answer (`answers`,
`statuses`) and words what went wrong (`failures`). `registry` makes the plugins.
"""
