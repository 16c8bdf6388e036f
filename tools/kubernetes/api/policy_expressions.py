"""The compiled expressions of an admission policy.

They see untyped objects. There is no `authorizer`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from berth.actors.scheduling.cel import Expression
from berth.actors.scheduling.cel.built import JSON_PATCH_TYPE, OBJECT_TYPE
from berth.actors.scheduling.cel.types import BOOL, DYN, NULL, STRING, Type, list_of

from .types.api_documents import Document, StoredObject

# Units of work to compile all expressions of a policy: up to a third of a second.
MOST_WORK = 300_000
TOO_COMPLEX = "compilation failed: the expressions of the policy are too complex"
_NAMES = ("object", "oldObject", "request", "namespaceObject")
_MATCH_NAMES = ("object", "oldObject", "request")
_AUTHORIZER = "undeclared reference to 'authorizer'"


class Variable(NamedTuple):
    name: str
    expression: Expression


class Validation(NamedTuple):
    """A validation; `message` is None if it has no expression for its message."""

    spec: Document
    expression: Expression
    message: Expression | None


class Mutation(NamedTuple):
    """A mutation: a JSON patch if `is_patch`, else a part of the object."""

    is_patch: bool
    expression: Expression


class Policy(NamedTuple):
    """A policy. `problems` are the problems of its expressions by the path of each."""

    conditions: tuple[Expression, ...]
    variables: tuple[Variable, ...]
    validations: tuple[Validation, ...]
    annotations: tuple[Expression, ...]
    mutations: tuple[Mutation, ...]
    problems: tuple[tuple[str, str, str], ...]


@lru_cache(maxsize=64)
def policy_of(stored: StoredObject) -> Policy:
    """Returns the expressions of a stored policy."""
    return compiled(stored.document["spec"])


def compiled(spec: Document) -> Policy:
    return _Compiler(spec).policy()


class _Compiler:
    def __init__(self, spec: Document) -> None:
        self._spec = spec
        self._left = MOST_WORK
        self._problems: list[tuple[str, str, str]] = []
        has_parameters = bool(spec.get("paramKind"))
        parameters = {"params": DYN} if has_parameters else {}
        self._match_names = {**dict.fromkeys(_MATCH_NAMES, DYN), **parameters}
        self._names = {**dict.fromkeys(_NAMES, DYN), **parameters}

    def policy(self) -> Policy:
        conditions = [
            self._compile(f"matchConditions[{i}].expression", text, (BOOL,), self._match_names)
            for i, text in self._texts("matchConditions", "expression")
        ]
        variables = [
            self._variable(i, variable) for i, variable in enumerate(self._all("variables"))
        ]
        validations = [
            self._validation(i, validation) for i, validation in enumerate(self._all("validations"))
        ]
        annotations = [
            self._compile(f"auditAnnotations[{i}].valueExpression", text, (STRING, NULL))
            for i, text in self._texts("auditAnnotations", "valueExpression")
        ]
        return Policy(
            tuple(conditions),
            tuple(variables),
            tuple(validations),
            tuple(annotations),
            tuple(self._mutations()),
            tuple(self._problems),
        )

    def _all(self, field: str) -> Collection[Document]:
        return self._spec.get(field) or ()

    def _texts(self, field: str, of: str) -> Iterator[tuple[int, str]]:
        return ((i, item.get(of) or "") for i, item in enumerate(self._all(field)))

    def _variable(self, i: int, variable: Document) -> Variable:
        text = variable.get("expression") or ""
        expression = self._compile(f"variables[{i}].expression", text, ())
        name = f"variables.{variable.get('name')}"
        self._names[name] = expression.type
        return Variable(name, expression)

    def _validation(self, i: int, validation: Document) -> Validation:
        path = f"validations[{i}]"
        expression = self._compile(
            f"{path}.expression", validation.get("expression") or "", (BOOL,)
        )
        text = validation.get("messageExpression") or ""
        message = (
            self._compile(f"{path}.messageExpression", text, (STRING,)) if text.strip() else None
        )
        return Validation(validation, expression, message)

    def _mutations(self) -> Iterator[Mutation]:
        for i, mutation in enumerate(self._all("mutations")):
            is_patch = mutation.get("patchType") == "JSONPatch"
            field = "jsonPatch" if is_patch else "applyConfiguration"
            text = (mutation.get(field) or {}).get("expression") or ""
            result = list_of(JSON_PATCH_TYPE) if is_patch else OBJECT_TYPE
            path = f"mutations[{i}].{field}.expression"
            yield Mutation(is_patch, self._compile(path, text.strip(), (result,), builds=True))

    def _compile(
        self,
        path: str,
        text: str,
        results: Collection[Type],
        names: Mapping[str, Type] | None = None,
        *,
        builds: bool = False,
    ) -> Expression:
        """Compiles an expression. A blank one is no problem here, because another rule refuses
        it.
        """
        is_late = self._left < 0
        expression = Expression(
            "" if is_late else text, names or self._names, results, builds=builds
        )
        self._left -= expression.work
        if is_late:
            self._problems.append((path, text, TOO_COMPLEX))
        elif expression.error and text.strip():
            self._problems.append((path, text, _problem_in_words(expression.error)))
        return expression


def _problem_in_words(error: str) -> str:
    """Returns the problem of an expression; if it uses what this server lacks, the problem says
    that.
    """
    if _AUTHORIZER in error:
        return f"{error}\nthis API server has no authorizer in expressions"
    return error
