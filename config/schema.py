"""The JSON Schema of a configuration file, derived from the types that read the file.

Editors complete and check a file with it. It is stricter than the reader in one point: null is only
allowed where it means something.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from .load import plain
from .types import API_VERSION, Duration, KubeSchedulerConfiguration

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DURATION = {
    "type": "string",
    "pattern": r"^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$",
    "examples": ["15s", "1m30s", "500ms"],
}

Schema = dict[str, Any]


def json_schema(plugins: Iterable[str], args: Mapping[str, msgspec.Struct]) -> Schema:
    """Returns the schema. `plugins` are the names that it suggests; `args` has the default
    arguments of the plugins that take some.
    """
    definitions: dict[str, Schema] = {}
    root = _schema(inspect.type_info(KubeSchedulerConfiguration), definitions)
    for name, default in args.items():
        kind = type(default)
        _schema(inspect.type_info(kind), definitions)
        fields = definitions[kind.__name__]["properties"]
        for own in msgspec.structs.fields(kind):
            if getattr(default, own.name) is not None:
                fields[own.encode_name]["default"] = plain(getattr(default, own.name))
        fields |= {
            "apiVersion": {"const": API_VERSION, "description": "The version of the arguments."},
            "kind": {"const": f"{name}Args", "description": "The kind of the arguments."},
        }
    for component in ("PluginRef", "PluginConfig"):
        field = definitions[component]["properties"]["name"]
        del field["type"], field["default"]
        field["anyOf"] = [{"enum": sorted(plugins)}, {"type": "string"}]
        definitions[component]["required"] = ["name"]
    definitions["PluginConfig"]["allOf"] = [
        {
            "if": {"properties": {"name": {"const": name}}},
            "then": {"properties": {"args": {"$ref": f"#/$defs/{type(args[name]).__name__}"}}},
        }
        for name in sorted(args)
    ]
    definitions["KubeSchedulerConfiguration"]["required"] = ["apiVersion", "kind"]
    return {"$schema": DIALECT, "title": "KubeSchedulerConfiguration", **root, "$defs": definitions}


def _schema(at: inspect.Type, definitions: dict[str, Schema]) -> Schema:
    """Returns the schema of a type, and adds the schemas of structs to `definitions`."""
    match at:
        case inspect.Metadata(type=below, extra_json_schema=extra):
            return {**_schema(below, definitions), **(extra or {})}
        case inspect.UnionType(types):
            non_null = next(choice for choice in types if not isinstance(choice, inspect.NoneType))
            return {"anyOf": [_schema(non_null, definitions), {"type": "null"}]}
        case inspect.StructType(cls):
            if cls.__name__ not in definitions:
                definitions[cls.__name__] = {}
                definitions[cls.__name__] |= _struct(at, definitions)
            return {"$ref": f"#/$defs/{cls.__name__}"}
        case inspect.VarTupleType(item) | inspect.ListType(item):
            return {"type": "array", "items": _schema(item, definitions)}
        case inspect.IntType(ge=least, le=most) | inspect.FloatType(ge=least, le=most):
            kind = "integer" if isinstance(at, inspect.IntType) else "number"
            bounds = {"minimum": least, "maximum": most}
            return {"type": kind, **{n: bound for n, bound in bounds.items() if bound is not None}}
        case inspect.LiteralType(values):
            return {"enum": list(values)}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.StrType():
            return {"type": "string"}
        case inspect.BytesType():
            return {"type": "string", "contentEncoding": "base64"}
        case inspect.CustomType(cls) if cls is Duration:
            return dict(_DURATION)
        case _:
            return {"type": "object"}


def _struct(at: inspect.StructType, definitions: dict[str, Schema]) -> Schema:
    fields = {}
    for field in at.fields:
        fields[field.encode_name] = _schema(field.type, definitions)
        default = field.default
        if default is not msgspec.NODEFAULT and default is not None:
            fields[field.encode_name]["default"] = plain(default)
    own = vars(at.cls).get("__doc__")
    description = {"description": " ".join(own.split())} if own else {}
    return {
        "type": "object",
        **description,
        "properties": fields,
        "additionalProperties": False,
    }
