"""How the values of a type are compared and merged: by key, by value, or as a whole.

Mirrors the schema that Kubernetes derives from its OpenAPI document for server-side apply. A list
is atomic unless types.txt or a custom resource's schema says otherwise, a map or an object is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ..types.schema import Field, Shape

ATOMIC, SET = "atomic", "set"
# The objects that are merged as a whole wherever they occur.
_ATOMIC_TYPES = frozenset(
    (
        "ConfigMapKeySelector",
        "CrossVersionObjectReference",
        "EndpointAddress",
        "EndpointPort",
        "FileKeySelector",
        "LabelSelector",
        "LocalObjectReference",
        "MatchResources",
        "NamedRuleWithOperations",
        "NodeSelector",
        "NodeSelectorTerm",
        "ObjectFieldSelector",
        "ObjectReference",
        "OwnerReference",
        "ParamKind",
        "ParamRef",
        "ResourceFieldSelector",
        "RoleRef",
        "ScopeSelector",
        "SecretKeySelector",
        "SecretReference",
        "ServiceBackendPort",
        "Subject",
        "TopologySelectorTerm",
        "TypedLocalObjectReference",
        "Variable",
    )
)
_GRANULAR = (("flowcontrol.apiserver.k8s.io/v1", "Subject"),)  # although of the same name
# Fields whose objects and times are no pointers in Go: they are there even if they are empty.
_EMBEDDED = frozenset(
    (
        "backend",
        "clientConfig",
        "conditions",
        "current",
        "daemonEndpoints",
        "deprecatedFirstTimestamp",
        "deprecatedLastTimestamp",
        "deprecatedSource",
        "describedObject",
        "devices",
        "eventTime",
        "finishedAt",
        "firstTimestamp",
        "involvedObject",
        "jobTemplate",
        "kubeletEndpoint",
        "lastHeartbeatTime",
        "lastObservedTime",
        "lastProbeTime",
        "lastState",
        "lastTimestamp",
        "lastTransitionTime",
        "lastUpdateTime",
        "limitResponse",
        "loadBalancer",
        "metadata",
        "metric",
        "nodeInfo",
        "podAffinityTerm",
        "podSelector",
        "pool",
        "port",
        "preference",
        "priorityLevelConfiguration",
        "regarding",
        "resources",
        "roleRef",
        "scaleTargetRef",
        "source",
        "spec",
        "startedAt",
        "state",
        "status",
        "strategy",
        "target",
        "template",
        "updateStrategy",
    )
)
_POINTERS = frozenset(
    (
        ("NetworkPolicyPeer", "podSelector"),
        ("ReplicationControllerSpec", "template"),
        ("PodSpec", "resources"),
        ("PodStatus", "resources"),
        ("ContainerStatus", "resources"),
    )
)
# Scalars that are written even if they are 0 or empty, although they are not required.
_WRITTEN = frozenset(
    (
        ("CSINodeDriver", "topologyKeys"),
        ("Event", "reportingComponent"),
        ("Event", "reportingInstance"),
        ("PodDisruptionBudgetStatus", "currentHealthy"),
        ("PodDisruptionBudgetStatus", "desiredHealthy"),
        ("PodDisruptionBudgetStatus", "disruptionsAllowed"),
        ("PodDisruptionBudgetStatus", "expectedPods"),
        ("PriorityClass", "value"),
        ("StatefulSetSpec", "serviceName"),
        ("StatefulSetStatus", "availableReplicas"),
    )
)
_ZEROS = {"string": "", "int32": 0, "int64": 0, "bool": False}
_NUMBERS = ("int32", "int64", "float64")
_STRINGS = ("string", "bytes")
# The keys of a list of which an item need not name all, and the values that they then have.
_KEY_DEFAULTS = {"protocol": "TCP"}


class MergeType:
    """A type. A value of it is a scalar, a map or object, or a list, as far as the type has them.

    `scalar` is numeric, string, boolean or untyped. `fields` has the types of an object's fields,
    `values` that of a map's other keys. `item` is the type of a list's items, `keys` the fields
    that tell them apart, () if they are told apart by their values; None for an atomic list.
    `key_defaults` has the values of keys that an item need not name.
    `is_atomic` is True for a map that is merged as a whole. `always` has the fields that are there
    even if nothing is in them, with their empty values.
    """

    __slots__ = (
        "_fill",
        "_parts",
        "has_fields",
        "is_atomic",
        "is_map",
        "item",
        "key_defaults",
        "keys",
        "scalar",
        "values",
    )

    def __init__(
        self,
        *,
        scalar: str = "",
        fields: Callable[[], _Parts] | None = None,
        values: MergeType | None = None,
        item: MergeType | None = None,
        keys: tuple[str, ...] | None = None,
        key_defaults: Mapping[str, Any] = MappingProxyType({}),
        is_atomic: bool = False,
    ) -> None:
        self.scalar = scalar
        self.values = values
        self.item = item
        self.keys = keys
        self.key_defaults = key_defaults
        self.is_atomic = is_atomic
        self.has_fields = fields is not None
        self.is_map = self.has_fields or values is not None
        self._fill = fields
        self._parts: _Parts | None = None if self.has_fields else ({}, {})

    @property
    def fields(self) -> dict[str, MergeType]:
        return self.parts[0]

    @property
    def always(self) -> dict[str, Any]:
        return self.parts[1]

    @property
    def parts(self) -> _Parts:
        """The fields, and those that are always there. They are made when they are first asked
        for: types refer to each other, and most are never asked for.
        """
        if self._parts is None:
            assert self._fill is not None
            self._parts = self._fill()
        return self._parts


_Parts = tuple[dict[str, MergeType], dict[str, Any]]

UNTYPED = MergeType(scalar="untyped")  # a value that is merged as a whole
UNTYPED.item = UNTYPED.values = UNTYPED
UNTYPED.is_map = UNTYPED.is_atomic = True
DEDUCED = MergeType(scalar="untyped", item=UNTYPED)  # a value without a schema
DEDUCED.values = DEDUCED
DEDUCED.is_map = True
STRING, NUMERIC, BOOLEAN, ANY_SCALAR = (
    MergeType(scalar=name) for name in ("string", "numeric", "boolean", "untyped")
)
_SCALARS = {
    **dict.fromkeys(_NUMBERS, NUMERIC),
    **dict.fromkeys(_STRINGS, STRING),
    "bool": BOOLEAN,
    "any": UNTYPED,
}
_made: dict[Shape, MergeType] = {}


def type_of(shape: Shape | None) -> MergeType:
    """Returns the type of a shape; that of values without a schema for None."""
    if shape is None:
        return DEDUCED
    made = _made.get(shape)
    if made is None:
        made = _made[shape] = _type_of(shape)
    return made


def _type_of(shape: Shape) -> MergeType:
    if shape.fields is not None:
        fields = shape.fields
        name = shape.name
        is_atomic = name in _ATOMIC_TYPES and (shape.api_version, name) not in _GRANULAR
        return MergeType(fields=lambda: _parts(shape.name, fields), is_atomic=is_atomic)
    if shape.values is not None:
        return MergeType(values=type_of(shape.values))
    if shape.item is not None:
        return MergeType(item=type_of(shape.item))
    return _SCALARS.get(shape.name, ANY_SCALAR)


def _parts(name: str, fields: Mapping[str, Field]) -> _Parts:
    always: dict[str, Any] = {}
    for key, field in fields.items():
        shape = field.shape
        if key in _EMBEDDED and (name, key) not in _POINTERS:
            if shape.fields is not None:
                always[key] = {}
            elif shape.name in ("time", "microtime"):
                always[key] = None
        elif field.required or (name, key) in _WRITTEN:
            if shape.item is not None or shape.values is not None:
                always[key] = None
            elif shape.name in _ZEROS:
                always[key] = _ZEROS[shape.name]
    return {key: _of_field(field) for key, field in fields.items()}, always


def _of_field(field: Field) -> MergeType:
    """Returns the type of a field, whose mark may say how it is merged."""
    shape, key, how = field.shape, field.merge_key, field.merged
    if shape.item is not None:
        keys: tuple[str, ...] | None = None if key is None else () if key == "*" else (key,)
        if how:
            keys = None if how == ATOMIC else () if how == SET else (*how.split("+"),)
        if keys is None:
            return type_of(shape)
        defaults = _key_defaults(shape.item, keys)
        return MergeType(item=type_of(shape.item), keys=keys, key_defaults=defaults)
    if not how:
        return type_of(shape)
    made = type_of(shape)
    fields = (lambda: made.parts) if made.has_fields else None
    return MergeType(fields=fields, values=made.values, is_atomic=how == ATOMIC)


def _key_defaults(item: Shape, keys: tuple[str, ...]) -> dict[str, Any]:
    """Returns the values of the keys that an item need not name."""
    fields = item.fields or {}
    defaults: dict[str, Any] = {}
    for key in keys:
        if key in _KEY_DEFAULTS:
            defaults[key] = _KEY_DEFAULTS[key]
        elif key in fields and fields[key].required and fields[key].shape.name in _ZEROS:
            defaults[key] = _ZEROS[fields[key].shape.name]
    return defaults
