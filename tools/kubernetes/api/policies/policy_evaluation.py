"""The evaluation of a policy for one write, and the parameters that its bindings name."""

from __future__ import annotations

from typing import Any

from berth.actors.scheduling.cel import CelError, Expression

from ..policy_expressions import Policy
from ..rules.fields import selects
from ..store import Store
from ..types.api_documents import Document
from .policy_writes import Write

# Units of work for the evaluations of one policy with one binding: half a second.
MOST_WORK = 1_000_000
_NO_BUDGET = "running out of cost budget, no further validation rules will be run"
_NO_PARAMETERS = "no params found for policy binding with `Deny` parameterNotFoundAction"
_NO_NAMESPACE = (
    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
)
_NAMESPACE_TOO_MANY = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"


class ConfigurationError(Exception):
    """A policy or a binding that cannot be applied to a write."""


def parameters_of(store: Store, spec: Document, binding: Document, write: Write) -> list[Any]:
    """Returns the parameters with which a policy is applied; None stands for no parameter.

    Raises ConfigurationError.
    """
    parameter_kind, reference = spec.get("paramKind"), binding.get("paramRef")
    if parameter_kind is None:
        return [None]
    kind = store.catalog.named(parameter_kind["apiVersion"], parameter_kind["kind"])
    if kind is None:
        what = f"{parameter_kind['apiVersion']}, Kind={parameter_kind['kind']}"
        raise ConfigurationError(f"failed to find resource referenced by paramKind: '{what}'")
    if reference is None:
        return [None]
    namespace = reference.get("namespace") or ""
    if namespace and not kind.namespaced:
        raise ConfigurationError(_NAMESPACE_TOO_MANY)
    if kind.namespaced:
        namespace = namespace or write.place
        if not namespace:
            raise ConfigurationError(_NO_NAMESPACE)
    name, selector = reference.get("name"), reference.get("selector") or {}
    if name:
        document = store.find(kind, namespace, name)
        parameters = [] if document is None else [document]
    else:
        parameters = [
            stored.document
            for stored in store.list(kind, namespace)
            if selects(selector, stored.document["metadata"].get("labels") or {})
        ]
    if not parameters and reference.get("parameterNotFoundAction") == "Deny":
        raise ConfigurationError(_NO_PARAMETERS)
    return list(parameters)


class _Values(dict[str, Any]):
    """The variables of expressions; those of the policy are evaluated when they are first read."""

    def __init__(self, values: dict[str, Any], evaluation: Evaluation) -> None:
        super().__init__(values)
        self._evaluation = evaluation

    def __missing__(self, name: str) -> Any:
        self[name] = value = self._evaluation.variable(name, self)
        return value


class Evaluation:
    """The evaluation of a policy for one write and one parameter."""

    def __init__(self, policy: Policy, values: dict[str, Any]) -> None:
        self.policy = policy
        self._values = _Values(values, self)
        self._variables = {variable.name: variable.expression for variable in policy.variables}
        self._left = MOST_WORK

    def variable(self, name: str, values: _Values) -> Any:
        """Returns the value of a variable of the policy. Raises CelError."""
        try:
            return self._variables[name].value(values, self._spend)
        except CelError as problem:
            plain = name.removeprefix("variables.")
            raise CelError(f'composited variable "{plain}" fails to evaluate: {problem}') from None

    def matches(self) -> bool:
        """True if all matchConditions hold. Raises CelError if one fails and none is false."""
        failed: list[CelError] = []
        for condition in self.policy.conditions:
            try:
                if self.value_of(condition) is False:
                    return False
            except CelError as problem:
                failed.append(problem)
        if failed:
            raise failed[0]
        return True

    def value_of(self, expression: Expression) -> Any:
        if self._left < 0:
            raise CelError(f"validation failed due to {_NO_BUDGET}")
        try:
            return expression.value(self._values, self._spend)
        except CelError as problem:
            text = expression.expression
            raise CelError(f"expression '{text}' resulted in error: {problem}") from None

    def _spend(self, work: int) -> None:
        self._left -= work
