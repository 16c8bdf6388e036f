"""Matches node selector terms against one node, and validates them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from .aggregate import joined_errors
from .core import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from .names import label_value, qualified_name

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
FIELD_OPERATORS = ("In", "NotIn")
MAX_DIGITS = 19  # of a 64-bit integer


def integer(text: str) -> int | None:
    """Parses a decimal 64-bit integer with an optional sign; returns None for anything else."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits.lstrip("0")) > MAX_DIGITS:
        return None
    number = int(digits.lstrip("0") or "0") * (-1 if text[0] == "-" else 1)
    return number if -(1 << 63) <= number < 1 << 63 else None


def requirement_matches(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """True if the labels meet the requirement; an unknown operator matches nothing."""
    have = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return have in requirement.values
        case "NotIn":
            return have not in requirement.values
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
        case "Gt" | "Lt" as operator:
            number = None if have is None else integer(have)
            bound = integer(requirement.values[0]) if len(requirement.values) == 1 else None
            if number is None or bound is None:
                return False
            return number > bound if operator == "Gt" else number < bound
        case _:
            return False


def node_selector_matches(terms: Sequence[NodeSelectorTerm], node: Node) -> bool:
    """True if at least one term matches the node; a term without requirements matches nothing."""
    fields = {"metadata.name": node.metadata.name}
    return any(
        (term.match_expressions or term.match_fields)
        and all(requirement_matches(r, node.metadata.labels) for r in term.match_expressions)
        and all(requirement_matches(r, fields) for r in term.match_fields)
        for term in terms
    )


def validate_node_selector_term(term: NodeSelectorTerm) -> str | None:
    """Returns the first error of a term, beginning with its path in the term, or None."""
    for i, requirement in enumerate(term.match_expressions):
        path = f"matchExpressions[{i}]"
        if not requirement.key:
            return f"{path}.key: expected a label key"
        if requirement.operator not in OPERATORS:
            expected = ", ".join(OPERATORS)
            return f"{path}.operator: expected one of {expected}, got {requirement.operator!r}"
        count = len(requirement.values)
        if requirement.operator in ("In", "NotIn") and not count:
            return f"{path}.values: expected at least one value with {requirement.operator}"
        if requirement.operator in ("Exists", "DoesNotExist") and count:
            return f"{path}.values: expected none with {requirement.operator}"
        if requirement.operator in ("Gt", "Lt") and (
            count != 1 or integer(requirement.values[0]) is None
        ):
            return f"{path}.values: expected one integer with {requirement.operator}"
    for i, field in enumerate(term.match_fields):
        path = f"matchFields[{i}]"
        if field.key != "metadata.name":
            return f"{path}.key: expected metadata.name, got {field.key!r}"
        if field.operator not in FIELD_OPERATORS:
            return f"{path}.operator: expected In or NotIn, got {field.operator!r}"
        if len(field.values) != 1:
            return f"{path}.values: expected one node name"
    return None


def parse_errors(term: NodeSelectorTerm, path: str) -> Iterator[str]:
    """Yields why kube-scheduler cannot parse a term, in kube-scheduler's words.

    It is stricter about labels than the API server, which takes any value in a preferred term.
    """
    for i, requirement in enumerate(term.match_expressions):
        yield from dict.fromkeys(_expression_errors(requirement, f"{path}.matchExpressions[{i}]"))
    for i, field in enumerate(term.match_fields):
        where = f"{path}.matchFields[{i}]"
        if field.operator not in FIELD_OPERATORS:
            yield _unsupported(f"{where}.operator", field.operator, FIELD_OPERATORS)
        elif len(field.values) != 1:
            yield _invalid(f"{where}.values", field.values, "must have one element")


def selector_error(selector: NodeSelector) -> str:
    """Returns why kube-scheduler cannot parse a selector, in kube-scheduler's words; "" if
    it can.
    """
    terms = enumerate(selector.node_selector_terms)
    return joined_errors(
        problem for i, term in terms for problem in parse_errors(term, f"nodeSelectorTerms[{i}]")
    )


def in_go(selector: NodeSelector) -> str:
    """Returns the selector as Go prints it."""

    def listed(requirements: Sequence[NodeSelectorRequirement]) -> str:
        each = (
            f"NodeSelectorRequirement{{Key:{r.key},Operator:{r.operator},"
            f"Values:[{' '.join(r.values)}],}},"
            for r in requirements
        )
        return f"[]NodeSelectorRequirement{{{''.join(each)}}},"

    terms = (
        f"NodeSelectorTerm{{MatchExpressions:{listed(term.match_expressions)}"
        f"MatchFields:{listed(term.match_fields)}}},"
        for term in selector.node_selector_terms
    )
    return f"&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{''.join(terms)}}},}}"


def _expression_errors(requirement: NodeSelectorRequirement, path: str) -> Iterator[str]:
    key, operator, values = requirement.key, requirement.operator, requirement.values
    if operator not in OPERATORS:
        yield _unsupported(f"{path}.operator", operator, OPERATORS)
        return
    if problems := qualified_name(key):
        yield _invalid(f"{path}.key", key, "; ".join(problems))
    where = f"{path}.values"
    match operator:
        case "In" | "NotIn":
            if not values:
                detail = "for 'in', 'notin' operators, values set can't be empty"
                yield _invalid(where, values, detail)
        case "Exists" | "DoesNotExist":
            if values:
                detail = "values set must be empty for exists and does not exist"
                yield _invalid(where, values, detail)
        case _:
            if len(values) != 1:
                detail = "for 'Gt', 'Lt' operators, exactly one value is required"
                yield _invalid(where, values, detail)
            for i, value in enumerate(values):
                if integer(value) is None:
                    detail = "for 'Gt', 'Lt' operators, the value must be an integer"
                    yield _invalid(f"{where}[{i}]", value, detail)
    for i, value in enumerate(values):
        if problems := label_value(value):
            yield _invalid(f"{where}[{i}][{key}]", value, "; ".join(problems))


def _invalid(path: str, value: str | tuple[str, ...], detail: str) -> str:
    return f"{path}: Invalid value: {_shown(None if value == () else value)}: {detail}"


def _unsupported(path: str, value: str, supported: Sequence[str]) -> str:
    choices = ", ".join(map(_shown, supported))
    return f"{path}: Unsupported value: {_shown(value)}: supported values: {choices}"


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
