"""The rules of a schema in CEL (x-kubernetes-validations).

Mirrors k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel. A rule that names oldSelf is asked
at updates only, of parts that can be told to be the same before and after. A rule that refuses what
an update leaves as it was is passed over.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from berth.actors.scheduling.cel import CelError, Expression
from berth.actors.scheduling.cel.tree import Ident, TreeNode
from berth.actors.scheduling.cel.types import BOOL, STRING, Type, optional_of
from berth.actors.scheduling.cel.values import NONE, Optional

from ...types.api_documents import Document
from ...types.structural import Structural
from ..fields import duplicate, forbidden, printed_value, required
from .cel_types import Declared, declared, value_in_cel
from .list_types import key_of
from .schema_rules import NEW

BUDGET = 10_000_000  # cel-go's units of cost for all rules of an object
LONGEST_MESSAGE = 5 << 10  # bytes of a message that an expression makes


class CompiledRule(NamedTuple):
    """A compiled rule. `told` is the rule as it was written; `message` is None without an
    expression for the message.
    """

    told: Document
    expression: Expression
    message: Expression | None
    uses_old: bool
    is_optional: bool


class _OverBudgetError(Exception):
    """The rules of an object cost too much; the text is the problem."""


def rules_of(schema: Structural, of: Declared) -> list[CompiledRule]:
    """Returns the compiled rules of a schema, without those below it."""
    return [_rule(told, of.type) for told in schema.rules if told.get("rule", "").strip()]


def _rule(told: Document, type_: Type) -> CompiledRule:
    is_optional = bool(told.get("optionalOldSelf"))
    old = optional_of(type_) if is_optional else type_
    text, shown = told["rule"], told.get("messageExpression") or ""
    names = {"self": type_, "oldSelf": old}
    expression = Expression(text, names, (BOOL,))
    message = Expression(shown, names, (STRING,)) if shown.strip() else None
    root = expression.root
    return CompiledRule(
        told, expression, message, root is not None and _names_old(root), is_optional
    )


def _names_old(node: TreeNode) -> bool:
    """True if an expression names the earlier value."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Ident) and node.name == "oldSelf":
            return True
        waiting.extend(node.children)
    return False


def rule_problems(schema: Structural, document: Document, before: Document | None) -> list[str]:
    """Returns the problems of an object whose other rules are met."""
    problems: list[str] = []
    asking = _Asking(problems)
    try:
        asking.ask(schema, document, NEW if before is None else before, "", is_root=True)
    except _OverBudgetError as over:
        problems.append(str(over))
    return problems


class _Asking:
    def __init__(self, problems: list[str]) -> None:
        self._problems = problems
        self._left = BUDGET

    def ask(
        self,
        schema: Structural,
        value: Any,
        before: Any,
        path: str,
        *,
        is_root: bool = False,
        is_kept: bool = False,
    ) -> None:
        """Asks the rules of a value and of its parts. `is_kept` is True if the update leaves the
        nearest part that can be compared as it was.
        """
        if value is None or not schema.has_rules:
            return
        is_kept = value == before if before is not NEW else is_kept
        if schema.rules:
            self._own(schema, value, before, path, is_root=is_root, is_kept=is_kept)
        if type(value) is list and schema.item is not None:
            earlier = _earlier(schema, before)
            for i, each in enumerate(value):
                was = earlier.get(key_of(each, schema.list_keys), NEW) if earlier else NEW
                self.ask(schema.item, each, was, f"{path}[{i}]", is_kept=is_kept)
        elif type(value) is dict:
            is_open = type(before) is dict and schema.map_type != "atomic"
            for name, each in value.items():
                below = schema.field(name)
                if below is not None:
                    was = before.get(name, NEW) if is_open else NEW
                    self.ask(below, each, was, _below(schema, path, name), is_kept=is_kept)

    def _own(
        self,
        schema: Structural,
        value: Any,
        before: Any,
        path: str,
        *,
        is_root: bool,
        is_kept: bool,
    ) -> None:
        rules = _compiled(schema, is_root=is_root)
        if rules is None:
            return
        now = value_in_cel(value, schema, is_root=is_root)
        has_old = before is not NEW and before is not None
        was = value_in_cel(before, schema, is_root=is_root) if has_old else None
        place = path or "<nil>"
        for rule in rules:
            if rule.uses_old and not has_old and not rule.is_optional:
                continue
            old: Any = was
            if rule.is_optional:
                old = Optional(was) if has_old else NONE
            values = {"self": now, "oldSelf": old}
            problem = self._refusal(rule, values, value, schema, place)
            if problem and not (is_kept and not rule.uses_old):
                self._problems.append(problem)

    def _refusal(
        self, rule: CompiledRule, values: Document, value: Any, schema: Structural, path: str
    ) -> str:
        """Returns the problem if a rule is not met. Raises _OverBudgetError."""
        head = f"{path}: Invalid value: {printed_value(schema.type)}"
        if rule.expression.error:
            return f"{head}: rule compile error: {rule.expression.error}"
        try:
            result, cost = rule.expression.measured(values)
        except CelError as failure:
            if "actual cost limit exceeded" in str(failure):
                why = "no further validation rules will be run due to call cost exceeds limit"
                text = f"'{failure}': {why} for rule: {_text(rule)}"
                raise _OverBudgetError(f"{head}: {text}") from None
            if str(failure).startswith("no such overload"):
                why = "call arguments did not match a supported operator, function or macro"
                return f"{head}: '{failure}': {why} signature for rule: {_text(rule)}"
            return f"{head}: {failure} evaluating rule: {_text(rule)}"
        self._left -= cost
        if self._left < 0:
            why = "validation failed due to running out of cost budget"
            raise _OverBudgetError(f"{head}: {why}, no further validation rules will be run")
        if result is True:
            return ""
        field = rule.told.get("fieldPath") or ""
        place = path + field if path != "<nil>" else field.removeprefix(".") or path
        return _problem(rule, place, value, schema, self._message(rule, values))

    def _message(self, rule: CompiledRule, values: Document) -> str:
        text = ""
        if rule.message is not None and not rule.message.error:
            try:
                text, cost = rule.message.measured(values)
                self._left -= cost
            except CelError:
                text = ""
        text = text.strip()
        if text and "\n" not in text and len(text.encode()) <= LONGEST_MESSAGE:
            return text
        told: str = rule.told.get("message") or ""
        return told.strip() or f"failed rule: {_text(rule)}"


def _problem(rule: CompiledRule, path: str, value: Any, schema: Structural, message: str) -> str:
    match rule.told.get("reason"):
        case "FieldValueForbidden":
            return forbidden(path, message)
        case "FieldValueRequired":
            return required(path, message)
        case "FieldValueDuplicate":
            return duplicate(path, value)
    if schema.type in ("object", "array"):
        return f"{path}: Invalid value: {message}"
    return f"{path}: Invalid value: {printed_value(value)}: {message}"


def _text(rule: CompiledRule) -> str:
    text: str = rule.told["rule"]
    return text.strip()


def _below(schema: Structural, path: str, name: str) -> str:
    if name not in schema.fields:
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


def _earlier(schema: Structural, before: Any) -> dict[Any, Any]:
    if schema.list_type != "map" or type(before) is not list:
        return {}
    return {key_of(each, schema.list_keys): each for each in before}


def _compiled(schema: Structural, *, is_root: bool) -> list[CompiledRule] | None:
    """Returns the rules of a schema, compiled once; None if CEL does not see the value."""
    if schema.compiled is None:
        of = declared(schema, "self", is_root=is_root)
        schema.compiled = (None if of is None else rules_of(schema, of),)
    rules: list[CompiledRule] | None = schema.compiled[0]
    return rules
