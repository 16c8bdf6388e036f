"""A cause: a reason for programs, as its code with fields. The table of reasons says which fields a
code has.
"""

from __future__ import annotations

import msgspec


class CauseTaint(msgspec.Struct, frozen=True):
    """A taint of a node; the value may be ""."""

    key: str
    value: str
    effect: str


class CauseRequirement(msgspec.Struct, frozen=True):
    """What a node's labels have to meet, or its name if the key is metadata.name: as in a
    nodeSelectorTerm.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()


class CauseConstraint(msgspec.Struct, frozen=True, rename="camel"):
    """A topology spread constraint with whenUnsatisfiable DoNotSchedule."""

    topology_key: str
    max_skew: int


class Cause(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The `code` of a reason with its fields; those that are not known are left out.

    `message` is the reason in words, which may change. `plugin` is the plugin that gave it,
    Extender for all extenders. In a summary, `nodes` is the number of nodes, and the fields that
    differ from node to node are those of the node that comes closest, or of the first.

    The amounts `requested`, `allocatable`, `free` and `shortage` are quantities of the `resource`,
    such as 500m or 2Gi. `label` is a key. `pod` (namespace/name) is in the way, or has taken the
    place.
    """

    code: str
    message: str
    plugin: str = ""
    nodes: int = 0
    resource: str = ""
    requested: str = ""
    allocatable: str = ""
    free: str = ""
    shortage: str = ""
    taint: CauseTaint | None = None
    requirement: CauseRequirement | None = None
    label: str = ""
    constraints: tuple[CauseConstraint, ...] = ()
    port: int = 0
    protocol: str = ""
    features: tuple[str, ...] = ()
    pod: str = ""
    node: str = ""
    gates: tuple[str, ...] = ()
    claim: str = ""
    claims: tuple[str, ...] = ()
    volume: str = ""
    storage_class: str = ""
    driver: str = ""
    request: str = ""
    device_class: str = ""
    plugins: tuple[str, ...] = ()
    budgets: tuple[str, ...] = ()


COMMON = ("code", "message", "plugin", "nodes")  # fields of each cause
