"""Chooses a node for a pod: `algorithm` leads from PreFilter to the chosen node.

It asks `candidates`, which are `plain` or remembered (`recall`). `profile` and `rules` run the
plugins. `guard` surrounds each call of a plugin: it times the call, checks the answer (`answers`,
`statuses`) and words the errors (`failures`). `registry` creates the plugins.
"""
