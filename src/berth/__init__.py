"""berth, a scheduler for Kubernetes built of actors: this package is all that an installation has
of it.

The folders `actors`, `config` and `tools` stand at the top of the repository and are linked here,
so that they are importable below `berth` alone: as `berth.actors`, `berth.config` and
`berth.tools`. In a checkout they are imported from where they stand and not through the links, so
that tracebacks, coverage and debuggers name `actors/...`.
"""

from pathlib import Path

_HERE = Path(__file__).parent

if (_HERE / "actors").is_symlink():
    __path__.insert(0, str(_HERE.resolve().parent.parent))
