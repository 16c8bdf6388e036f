"""berth, a scheduler for Kubernetes built of actors: this package is all that an installation has
of it.

The folders `actors`, `config` and `tools` stand at the top of the repository and are linked here,
so that they are importable below `berth` alone: as `berth.actors`, `berth.config` and
`berth.tools`.
"""
