"""What a schema of a CustomResourceDefinition may say, beyond being structural.

Mirrors ValidateCustomResourceDefinitionOpenAPISchema of k8s.io/apiextensions-apiserver, with the
compilation of rules in CEL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from berth.actors.scheduling.cel import Expression

from ...types.api_documents import Document
from ...types.structural import EMBEDDED, LIST_KEYS, LIST_TYPE, MAP_TYPE, OPEN, RULES, Structural
from ..fields import forbidden, invalid, required, unsupported
from .cel_rules import CompiledRule, rules_of
from .cel_types import declared
from .rule_costs import RuleCosts

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_REASONS = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
_META = ("metadata", "kind", "apiVersion")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_OF_MAPS = "if parent array's x-kubernetes-list-type is map"


class _Place(NamedTuple):
    """Where a schema stands. `why` is the reason why it may have no default. `alone` is the highest
    place below which values before and after an update cannot be compared. `many` is how many
    values there may be, None if nothing limits them. `asks` is False below allOf and the like,
    where there are no rules.
    """

    path: str
    why: str = ""
    in_meta: bool = False
    alone: str = ""
    many: int | None = 1
    asks: bool = True
    is_root: bool = False

    def below(self, step: str, **changes: Any) -> _Place:
        return self._replace(path=f"{self.path}.{step}", is_root=False, **changes)


def open_api_problems(
    schema: Document, path: str, known: frozenset[str] = frozenset(), *, is_structural: bool
) -> list[str]:
    """Returns the problems of a schema. Rules are compiled only if it `is_structural`.

    The cost of a rule among the `known` ones is not limited by itself.
    """
    checker = _Checker(known, asks=is_structural)
    problems = [*checker.problems(schema, _Place(path, is_root=True))]
    return [*problems, *checker.rules, *checker.costs.problems(path)]


class _Checker:
    def __init__(self, known: frozenset[str], *, asks: bool) -> None:
        self.rules: list[str] = []
        self.costs = RuleCosts()
        self._known = known
        self._asks = asks

    def problems(self, schema: Document, place: _Place) -> list[str]:
        found = [*_own(schema, place), *self._parts(schema, place), *_lists(schema, place.path)]
        found += _told_rules(schema, place.path)
        if not found and schema.get(RULES) and self._asks and place.asks:
            self.rules += self._compiled(schema, place)
        return found

    def _parts(self, schema: Document, place: _Place) -> Iterator[str]:
        fields, values = schema.get("properties") or {}, schema.get("additionalProperties")
        if values is not None and fields and (values is False or isinstance(values, dict)):
            why = "additionalProperties and properties are mutual exclusive"
            yield forbidden(f"{place.path}.additionalProperties", why)
        if isinstance(values, dict):
            inside = "inside additionalProperties applying to object metadata"
            why = inside if place.in_meta else place.why
            many = _times(place.many, schema.get("maxProperties"))
            at = place.below("additionalProperties", why=why, many=many)
            yield from self.problems(values, at)
        for name, below in fields.items():
            yield from self.problems(below, _of_field(schema, place, name))
        if isinstance(schema.get("items"), dict):
            alone = place.alone or ("" if schema.get(LIST_TYPE) == "map" else place.path)
            many = _times(place.many, schema.get("maxItems"))
            yield from self.problems(schema["items"], place.below("items", alone=alone, many=many))
        if schema.get("not") is not None:
            yield from self.problems(schema["not"], place.below("not", asks=False))
        for word in ("allOf", "anyOf", "oneOf"):
            for i, each in enumerate(schema.get(word) or ()):
                yield from self.problems(each, place.below(f"{word}[{i}]", asks=False))

    def _compiled(self, schema: Document, place: _Place) -> Iterator[str]:
        structural = Structural(schema)
        of = declared(structural, "self", is_root=place.is_root)
        path = f"{place.path}.{RULES}"
        if of is None:
            why = "unable to convert structural schema to CEL declarations"
            yield f"{path}: Internal error: {why}"
            return
        for i, rule in enumerate(rules_of(structural, of)):
            at = f"{path}[{i}]"
            for expression, field, what in _expressions(rule):
                is_known = expression.expression in self._known
                problem = self.costs.problem(f"{at}.{field}", expression, of, place.many, what)
                if problem and not expression.error and not is_known:
                    yield problem
            yield from _rule_problems(rule, at, place.alone)


def _expressions(rule: CompiledRule) -> Iterator[tuple[Expression, str, str]]:
    if not rule.expression.error:
        yield rule.expression, "rule", "estimated rule cost"
    if rule.message is not None and not rule.message.error:
        yield rule.message, "messageExpression", "estimated messageExpression cost"


def _rule_problems(rule: CompiledRule, path: str, alone: str) -> Iterator[str]:
    if rule.expression.error:
        error = rule.expression.error
        if error.startswith("must evaluate"):
            error = "cel expression must evaluate to a bool"
        yield invalid(f"{path}.rule", _in_go(rule.told), error)
    if rule.message is not None and rule.message.error:
        error = rule.message.error
        if error.startswith("must evaluate"):
            error = "messageExpression must evaluate to a string"
        else:
            error = f"messageExpression {error}"
        yield invalid(f"{path}.messageExpression", _in_go(rule.told), error)
    if rule.uses_old and alone:
        why = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
        yield invalid(f"{path}.rule", rule.told["rule"], f"{why} {alone}")
    elif not rule.uses_old and "optionalOldSelf" in rule.told and not rule.expression.error:
        why = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{path}.optionalOldSelf", rule.told["optionalOldSelf"], why)


def _in_go(rule: Document) -> Document:
    """Returns a rule in the form in which Kubernetes shows it."""
    return {
        "Rule": rule["rule"],
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


def _times(many: int | None, most: int | None) -> int | None:
    return None if many is None or most is None else many * max(most, 0)


def _of_field(schema: Document, place: _Place, name: str) -> _Place:
    alone = place.alone or (place.path if schema.get(MAP_TYPE) == "atomic" else "")
    at = place.below(f"properties[{name}]", alone=alone)
    if name in _META and (place.is_root or schema.get(EMBEDDED)):
        at = at._replace(in_meta=True)
        if place.is_root:
            at = at._replace(why=f"in top-level {name}")
    return at


def _own(schema: Document, place: _Place) -> Iterator[str]:
    path, type_ = place.path, schema.get("type") or ""
    if type_ and type_ not in _TYPES and type_ != "null":
        yield unsupported(f"{path}.type", type_, _TYPES)
    if "default" in schema and place.why:
        yield forbidden(f"{path}.default", f"must not be set {place.why}")
    for word in _UNSUPPORTED:
        if schema.get(word):
            yield forbidden(f"{path}.{word}", f"{word} is not supported")
    if type_ == "null":
        why = "type cannot be set to null, use nullable as an alternative"
        yield unsupported(f"{path}.type", type_, _TYPES)
        yield forbidden(f"{path}.type", why)
    if place.in_meta and schema.get(EMBEDDED):
        yield forbidden(f"{path}.{EMBEDDED}", "must not be used inside of resource meta")
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", why)
    if schema.get(OPEN) is False:
        yield invalid(f"{path}.{OPEN}", False, "must be true or undefined")
    map_type = schema.get(MAP_TYPE)
    if map_type is not None:
        yield from _typed(schema, "object", MAP_TYPE, path)
        if map_type not in ("atomic", "granular"):
            yield unsupported(f"{path}.{MAP_TYPE}", map_type, ("atomic", "granular"))


def _typed(schema: Document, wanted: str, word: str, path: str) -> Iterator[str]:
    type_, why = schema.get("type") or "", f"must be {wanted} if {word} is specified"
    if not type_:
        yield required(f"{path}.type", why)
    elif type_ != wanted:
        yield invalid(f"{path}.type", type_, why)


def _lists(schema: Document, path: str) -> Iterator[str]:
    list_type, keys = schema.get(LIST_TYPE), schema.get(LIST_KEYS) or []
    items = schema.get("items")
    if list_type is not None:
        yield from _typed(schema, "array", LIST_TYPE, path)
        if list_type not in ("atomic", "set", "map"):
            yield unsupported(f"{path}.{LIST_TYPE}", list_type, ("atomic", "set", "map"))
    if list_type == "set" and isinstance(items, dict):
        yield from _set_items(items, f"{path}.items")
    if keys and list_type != "map":
        why = "must be map if x-kubernetes-list-map-keys is non-empty"
        place = f"{path}.{LIST_TYPE}"
        yield required(place, why) if list_type is None else invalid(place, list_type, why)
    if list_type == "map":
        yield from _map_items(keys, items, path)
    if list_type in ("set", "map") and isinstance(items, dict) and items.get("nullable"):
        why = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        yield forbidden(f"{path}.items.nullable", why)


def _set_items(items: Document, path: str) -> Iterator[str]:
    why = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.get("type") == "array" and (items.get(LIST_TYPE) or "atomic") != "atomic":
        yield invalid(f"{path}.{LIST_TYPE}", items.get(LIST_TYPE), why)
    if items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        yield invalid(f"{path}.{MAP_TYPE}", items.get(LIST_TYPE), why)


def _map_items(keys: list[str], items: Any, path: str) -> Iterator[str]:
    if not keys:
        yield required(f"{path}.{LIST_KEYS}", "must not be empty if x-kubernetes-list-type is map")
    if not isinstance(items, dict):
        why = "must have a schema if x-kubernetes-list-type is map"
        yield required(f"{path}.items", why)
        return
    if items.get("type") != "object":
        yield invalid(f"{path}.items.type", items.get("type") or "", f"must be object {_OF_MAPS}")
        return
    fields: Mapping[str, Document] = items.get("properties") or {}
    for i, key in enumerate(keys):
        below = fields.get(key)
        at = f"{path}.items.properties[{key}]"
        if below is None:
            why = "entries must all be names of item properties"
            yield invalid(f"{path}.{LIST_KEYS}", keys, why)
        elif below.get("type") in ("array", "object"):
            yield invalid(f"{at}.type", items["type"], f"must be a scalar type {_OF_MAPS}")
        if key in keys[:i]:
            yield invalid(f"{path}.{LIST_KEYS}", keys, "must not contain duplicate entries")
        if below is None:
            continue
        if key not in (items.get("required") or ()) and "default" not in below:
            why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be "
            yield required(f"{at}.default", f"{why}a required property")
        if below.get("nullable"):
            why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield forbidden(f"{at}.nullable", why)


def _told_rules(schema: Document, path: str) -> Iterator[str]:
    """Yields the problems of rules that need not be compiled to be found."""
    for i, told in enumerate(schema.get(RULES) or ()):
        at = f"{path}.{RULES}[{i}]"
        rule, message = told.get("rule", "").strip(), told.get("message") or ""
        shown, field = told.get("messageExpression") or "", told.get("fieldPath") or ""
        if not rule:
            yield required(f"{at}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid(f"{at}.message", message, "must be non-empty if specified")
        elif _has_lines(message.strip()):
            yield invalid(f"{at}.message", message, "must not contain line breaks")
        elif _has_lines(rule) and not message.strip():
            yield required(
                f"{at}.message", "message must be specified if rule contains line breaks"
            )
        if shown and not shown.strip():
            why = "messageExpression must be non-empty if specified"
            yield required(f"{at}.messageExpression", why)
        if told.get("reason") is not None and told["reason"] not in _REASONS:
            yield unsupported(f"{at}.reason", told["reason"], _REASONS)
        if field and not field.strip():
            yield invalid(f"{at}.fieldPath", field, "must be non-empty if specified")
        if _has_lines(field):
            yield invalid(f"{at}.fieldPath", field, "must not contain line breaks")
        if field and schema_at(schema, field) is None:
            yield invalid(f"{at}.fieldPath", field, "must be a valid path")


def _has_lines(text: str) -> bool:
    return "\n" in text or "\r" in text


def schema_at(schema: Document, path: str) -> Document | None:
    """Returns the schema of the field at a path such as `.spec.size`; None if there is none."""
    if not path.startswith("."):
        return None
    found: Any = schema
    for step in path[1:].split("."):
        name = step.replace("['", ".").rstrip("']").rpartition(".")[2] or step
        fields, values = found.get("properties"), found.get("additionalProperties")
        found = fields.get(name) if fields else values if isinstance(values, dict) else None
        if found is None:
            return None
    whole: Document = found
    return whole
