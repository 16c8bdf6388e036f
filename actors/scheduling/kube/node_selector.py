"""Matches node selector terms against one node, and validates them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .core import Node, NodeSelectorRequirement, NodeSelectorTerm

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
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
        if field.operator not in ("In", "NotIn"):
            return f"{path}.operator: expected In or NotIn, got {field.operator!r}"
        if len(field.values) != 1:
            return f"{path}.values: expected one node name"
    return None
