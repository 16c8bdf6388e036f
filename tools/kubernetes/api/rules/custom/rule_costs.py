"""What the rules in CEL of a schema may cost, which Kubernetes limits when a definition is written.

Mirrors the estimates of k8s.io/apiextensions-apiserver: the cost of a rule for the largest value
that the schema allows, times the number of such values that an object may have.
"""

from __future__ import annotations

from berth.actors.scheduling.cel import Expression
from berth.actors.scheduling.cel.values import MAX_UINT64

from ...cel_cost.call_estimates import Path, Range
from ...cel_cost.estimates import worst_cost
from ..fields import forbidden
from .cel_types import MOST_BYTES, Declared

MOST_OF_RULE, MOST_OF_SCHEMA = 10_000_000, 100_000_000
_NAMED = 4  # how many rules are named if all together cost too much
_HINT = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
    "maps, and strings are declared)"
)


class RuleCosts:
    """The costs of the rules of a schema, as they are found."""

    def __init__(self) -> None:
        self._total = 0
        self._of_rules: list[tuple[int, str]] = []

    def problem(
        self, path: str, expression: Expression, of: Declared, many: int | None, what: str
    ) -> str:
        """Adds the cost of an expression. Returns the problem if it is too high.

        `many` is how many values there may be; None if nothing limits them.
        """
        each = worst_cost(expression, lambda parts: _size_of_part(of, parts))
        number = MOST_BYTES // (of.least + 1) if many is None else many
        cost = min(each * number, MAX_UINT64)
        self._total = min(self._total + cost, MAX_UINT64)
        if cost >= MOST_OF_SCHEMA // 100:
            self._of_rules.append((cost, path))
        return forbidden(path, _too_much(what, cost, MOST_OF_RULE)) if cost > MOST_OF_RULE else ""

    def problems(self, path: str) -> list[str]:
        """Returns the problems of all rules together."""
        if self._total <= MOST_OF_SCHEMA:
            return []
        dearest = sorted(self._of_rules, key=lambda each: -each[0])[:_NAMED]
        why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 "
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        named = [forbidden(place, f"{why}schema") for _, place in dearest]
        return [*named, forbidden(path, _too_much(what, self._total, MOST_OF_SCHEMA))]


def _too_much(what: str, cost: int, most: int) -> str:
    times = cost / most
    factor = "more than 100x" if times > 100 else f"{times:f}x" if times < 1.5 else f"{times:.1f}x"
    return f"{what} exceeds budget by factor of {factor} {_HINT}"


def _size_of_part(of: Declared, path: Path) -> Range | None:
    """Returns the size of a part of the value; None for one that is not declared."""
    if not path:
        return None
    part: Declared | None = of
    for name in path[1:]:
        if part is None:
            return None
        if name in ("@items", "@values"):
            part = part.below
        elif name == "@keys":
            part = part.key
        else:
            part = part.fields.get(name)
    return None if part is None else Range(0, part.most)
