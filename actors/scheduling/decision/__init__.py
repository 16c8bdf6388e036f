"""Chooses a node for a pod: `algorithm` is the way from PreFilter to the chosen node.

It asks `candidates`, which are `plain` or remembered (`recall`). `profile` and `rules` run the
plugins; `registry` makes them; `answers` and `failures` guard against what they may do.
"""
