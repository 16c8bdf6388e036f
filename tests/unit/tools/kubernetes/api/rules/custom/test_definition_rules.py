"""What a CustomResourceDefinition may not say, in the words of kube-apiserver 1.36.2."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.rules.custom.definition_rules import definition_problems
from berth.tools.kubernetes.api.types.defaults import defaulted
from berth.tools.kubernetes.api.types.resources import BY_KIND
from tests.kit.custom_kinds import definition, schema_of, version_of
from tests.kit.documents import Document

KIND = BY_KIND["apiextensions.k8s.io/v1", "CustomResourceDefinition"]
TEXT: Document = {"type": "string"}
WHOLE = "spec.validation.openAPIV3Schema"
SPEC = f"{WHOLE}.properties[spec]"
RULES = "x-kubernetes-validations"
LIST_TYPE, LIST_KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
HINT = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
    "maps, and strings are declared)"
)
LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def problems(document: Document, before: Document | None = None) -> list[str]:
    earlier = None if before is None else defaulted(KIND, before)
    return definition_problems(defaulted(KIND, document), earlier)


def of_field(schema: Document) -> list[str]:
    """Returns the problems of a definition whose spec has a field `a` with this schema."""
    return problems(definition(version_of(schema_of({"properties": {"a": schema}}))))


def listed(item: Document, **more: Any) -> Document:
    marks = {"type_": LIST_TYPE, "keys": LIST_KEYS}
    return {"type": "array", "items": item, **{marks.get(k, k): v for k, v in more.items()}}


def ruled(rule: str, schema: Document = TEXT, **more: Any) -> Document:
    return {**schema, RULES: [{"rule": rule, **more}]}


@pytest.mark.parametrize(
    ("schema", "place", "problem"),
    [
        ({}, ".type", "Required value: must not be empty for specified object fields"),
        ({"type": "array"}, ".items", "Required value: must be specified"),
        (
            {"type": "strin"},
            ".type",
            (
                'Unsupported value: "strin": supported values: "array", "boolean", "integer", '
                '"number", "object", "string"'
            ),
        ),
        (
            {**TEXT, "anyOf": [TEXT]},
            ".anyOf[0].type",
            "Forbidden: must be empty to be structural",
        ),
        (
            {**TEXT, "pattern": "["},
            ".pattern",
            (
                'Invalid value: "[": must be a valid regular expression, but isn\'t: '
                "error parsing regexp: missing closing ]: `[`"
            ),
        ),
        (
            listed(TEXT, uniqueItems=True),
            ".uniqueItems",
            (
                "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes "
                "quadratic"
            ),
        ),
        ({**TEXT, "$ref": "#/x"}, ".$ref", "Forbidden: $ref is not supported"),
        (
            {**TEXT, "default": 1},
            ".default",
            'Invalid value: "integer":  in body must be of type string: "integer"',
        ),
        (
            {"type": "object", "properties": {"b": TEXT}, "default": {"c": 1}},
            ".default",
            'Invalid value: {"c":1}: must not have unknown fields',
        ),
        (
            {"type": "object", "properties": {"b": TEXT}, "additionalProperties": TEXT},
            ".additionalProperties",
            "Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            listed({"type": "object", "properties": {"k": TEXT}}, type_="map"),
            f".{LIST_KEYS}",
            "Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            listed({"type": "object", "properties": {"k": TEXT}}, type_="map", keys=["k"]),
            ".items.properties[k].default",
            (
                "Required value: this property is in x-kubernetes-list-map-keys, so it must have a "
                "default or be a required property"
            ),
        ),
        (
            listed(TEXT, type_="bag"),
            f".{LIST_TYPE}",
            'Unsupported value: "bag": supported values: "atomic", "set", "map"',
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            ".properties",
            (
                "Required value: must not be empty if "
                "x-kubernetes-embedded-resource is true without "
                "x-kubernetes-preserve-unknown-fields"
            ),
        ),
        (
            ruled("self.b == 1"),
            f".{RULES}[0].rule",
            (
                'Invalid value: {"Rule":"self.b == 1","Message":"","MessageExpression":"",'
                '"Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: '
                "<input>:1:5: type 'string' does not support field "
                "selection\n | self.b == 1\n | ....^"
            ),
        ),
        (
            ruled("true", reason="No"),
            f".{RULES}[0].reason",
            (
                'Unsupported value: "No": supported values: "FieldValueDuplicate", '
                '"FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'
            ),
        ),
        (
            ruled("true", optionalOldSelf=True),
            f".{RULES}[0].optionalOldSelf",
            "Invalid value: true: may not be set if oldSelf is not used in rule",
        ),
        (
            ruled("self.contains(self)"),
            f".{RULES}[0].rule",
            f"Forbidden: estimated rule cost exceeds budget by factor of more than 100x {HINT}",
        ),
    ],
)
def test_a_schema_is_refused(schema: Document, place: str, problem: str) -> None:
    assert f"{SPEC}.properties[a]{place}: {problem}" in of_field(schema)


def test_an_earlier_value_must_be_told() -> None:
    item = ruled("self == oldSelf", {**TEXT, "maxLength": 9})
    (problem,) = of_field(listed(item, maxItems=2))
    where = f"{SPEC}.properties[a]"
    assert problem == (
        f'{where}.items.{RULES}[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used '
        f"on the uncorrelatable portion of the schema within {where}"
    )


def test_rules_may_cost_as_much_as_the_largest_object_needs() -> None:
    rule = "self.all(x, self.all(y, x != y))"
    bounded = listed({**TEXT, "maxLength": 20}, maxItems=100)
    assert of_field({**bounded, RULES: [{"rule": rule}]}) == []
    found = of_field({**listed(TEXT), RULES: [{"rule": rule}]})
    assert [problem.partition(": ")[0] for problem in found] == [
        f"{SPEC}.properties[a].{RULES}[0].rule",
        f"{SPEC}.properties[a].{RULES}[0].rule",
        WHOLE,
    ]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (definition(version_of({})), "spec.versions[0].schema.openAPIV3Schema: Required value"),
        (
            definition(version_of({"properties": {"spec": {"type": "object"}}})),
            f"{WHOLE}.type: Required value: must not be empty at the root",
        ),
        (
            definition(version_of({"type": "object", "additionalProperties": TEXT})),
            f"{WHOLE}.additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            definition(version_of(schema_of({}, fields={"kind": {**TEXT, "default": "x"}}))),
            f"{WHOLE}.properties[kind].default: Forbidden: must not be set in top-level kind",
        ),
        (
            definition(names={"listKind": "Shirt"}),
            'spec.names.listKind: Invalid value: "Shirt": kind and listKind may not be the same',
        ),
        (
            definition(names={"shortNames": ["A_"]}),
            f'spec.names.shortNames[0]: Invalid value: "A_": {LABEL}',
        ),
        (
            {**definition(), "metadata": {"name": "other"}},
            'metadata.name: Invalid value: "other": must be spec.names.plural+"."+spec.group',
        ),
        (
            definition(scope="Global"),
            'spec.scope: Unsupported value: "Global": supported values: "Cluster", "Namespaced"',
        ),
        (
            definition(group="shop"),
            'spec.group: Invalid value: "shop": should be a domain with at least one dot',
        ),
        (
            definition(version_of(schema_of({})), version_of(schema_of({}), "v2", storage=True)),
            'status.storedVersions: Invalid value: ["v1"]: must have the storage version v2',
        ),
        (
            definition(version_of(schema_of({}), deprecationWarning="x")),
            (
                'spec.versions[0].deprecationWarning: Invalid value: "x": can only be set for '
                "deprecated versions"
            ),
        ),
        (
            definition(
                version_of(
                    schema_of({}),
                    additionalPrinterColumns=[{"name": "a", "type": "x", "jsonPath": "spec"}],
                )
            ),
            (
                'spec.additionalPrinterColumns[0].type: Invalid value: "x": must be one of '
                "boolean,date,integer,number,string"
            ),
        ),
        (
            definition(
                version_of(
                    schema_of({"properties": {"b": {"type": "number"}}}),
                    selectableFields=[{"jsonPath": ".spec.b"}],
                )
            ),
            (
                "spec.selectableFields[0].jsonPath: Invalid value: "
                '".spec.b": must point to a field of '
                "type string, boolean or integer. Enum string fields and strings with formats are "
                "allowed."
            ),
        ),
        (
            definition(
                version_of(
                    schema_of({}),
                    subresources={"scale": {"specReplicasPath": ".x", "statusReplicasPath": ""}},
                )
            ),
            (
                "spec.subresources.scale.specReplicasPath: Invalid value: "
                '".x": should be a json path '
                "under .spec"
            ),
        ),
        (
            definition(conversion={"strategy": "Webhook"}),
            (
                "spec.conversion.webhookClientConfig: Required value: "
                "required when strategy is set to "
                "Webhook"
            ),
        ),
        (
            definition(group="x.k8s.io"),
            (
                "metadata.annotations[api-approved.kubernetes.io]: Required "
                "value: protected groups "
                'must have approval annotation "api-approved.kubernetes.io", see '
                "https://github.com/kubernetes/enhancements/pull/1111"
            ),
        ),
    ],
)
def test_a_definition_is_refused(document: Document, problem: str) -> None:
    assert problem in problems(document)


def test_what_an_established_definition_names_is_fixed() -> None:
    status = {"conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1"]}
    before = {**definition(), "status": status}
    after = {**definition(scope="Cluster", names={"kind": "Other"}), "status": status}
    assert problems(after, before) == [
        'spec.scope: Invalid value: "Cluster": field is immutable',
        'spec.names.kind: Invalid value: "Other": field is immutable',
    ]
    assert problems(before, before) == []


def test_a_stored_version_stays() -> None:
    status = {"storedVersions": ["v1", "v2"]}
    (problem,) = problems({**definition(), "status": status})
    assert problem.startswith(
        'status.storedVersions[1]: Invalid value: "v2": missing from spec.versions; v2 was'
    )
