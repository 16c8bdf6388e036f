"""The decisions of admission policies about a write. Mirrors the plugin
ValidatingAdmissionPolicy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from berth.actors.scheduling.cel import CelError, Expression
from berth.actors.scheduling.cel.values import TYPE_NAMES

from ..policy_expressions import Policy, Validation, policy_of
from ..rules.fields import printed_value, selects
from ..store import Store
from ..types.api_documents import Document, RefusedError, StoredObject
from ..types.resources import BY_KIND, Kind
from .policy_writes import Write, matched_kind, values_of

_GROUP = "admissionregistration.k8s.io"
POLICIES = BY_KIND[f"{_GROUP}/v1", "ValidatingAdmissionPolicy"]
BINDINGS = BY_KIND[f"{_GROUP}/v1", "ValidatingAdmissionPolicyBinding"]
# Units of work for the evaluations of one policy with one binding: half a second.
MOST_WORK = 1_000_000
MOST_MESSAGE = 5 << 10
_CODES = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}
_NO_BUDGET = "running out of cost budget, no further validation rules will be run"
_NO_PARAMETERS = "no params found for policy binding with `Deny` parameterNotFoundAction"
_NO_NAMESPACE = (
    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
)
_NAMESPACE_TOO_MANY = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"


class ConfigurationError(Exception):
    """A policy or a binding that cannot be applied to a write."""


class PolicyFailure(msgspec.Struct, frozen=True):
    """A failed validation. `always` is true if it refuses the write whatever the binding's actions
    are.
    """

    message: str
    reason: str = "Invalid"
    always: bool = False


def judge(store: Store, write: Write) -> list[str]:
    """Returns the warnings of all policies. Raises RefusedError if one of them refuses a write."""
    if write.kind in (POLICIES, BINDINGS):
        return []
    bindings: dict[str, list[Document]] = {}
    for stored in store.list(BINDINGS):
        bindings.setdefault(stored.document["spec"]["policyName"], []).append(stored.document)
    warnings: list[str] = []
    refusals: list[RefusedError] = []
    for stored in store.list(POLICIES):
        name = stored.document["metadata"]["name"]
        if name not in bindings:
            continue
        kind = matched_kind(stored.document["spec"]["matchConstraints"], write)
        if kind is None:
            continue
        for binding in bindings[name]:
            resources = binding["spec"].get("matchResources")
            if resources is not None and matched_kind(resources, write) is None:
                continue
            for failure in _failures(store, stored, binding, write, kind):
                title = f"ValidatingAdmissionPolicy '{name}' with binding"
                title += f" '{binding['metadata']['name']}'"
                actions = binding["spec"].get("validationActions") or ()
                if failure.always or "Deny" in actions:
                    message = f"{title} denied request: {failure.message}"
                    refusals.append(_refusal(write, message, failure.reason))
                elif "Warn" in actions:
                    warnings.append(f"Validation failed for {title}: {failure.message}")
    if refusals:
        raise refusals[0]
    return warnings


def _refusal(write: Write, message: str, reason: str) -> RefusedError:
    kind = write.kind
    details = {"name": write.name, "group": kind.group, "kind": kind.plural}
    details = {field: value for field, value in details.items() if value}
    named = f"{kind.resource} {printed_value(write.name)}"
    causes = [{"message": message}]
    return RefusedError(
        _CODES[reason], reason, f"{named} is forbidden: {message}", {**details, "causes": causes}
    )


def _failures(
    store: Store, stored: StoredObject, binding: Document, write: Write, kind: Kind
) -> Iterator[PolicyFailure]:
    """Yields the failed validations of a policy for one binding."""
    spec = stored.document["spec"]
    ignores = spec.get("failurePolicy") == "Ignore"
    try:
        parameters = _parameters(store, spec, binding["spec"], write)
    except ConfigurationError as problem:
        if not ignores:
            message = f"failed to configure binding: {problem}"
            yield PolicyFailure(message, always=True)
        return
    for params in parameters:
        values = {**values_of(write, kind), "params": params}
        evaluation = _Evaluation(policy_of(stored), values)
        try:
            yield from evaluation.failures(ignores=ignores)
        except CelError as problem:
            if not ignores:
                yield PolicyFailure(str(problem))


def _parameters(store: Store, spec: Document, binding: Document, write: Write) -> list[Any]:
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

    def __init__(self, values: dict[str, Any], evaluation: _Evaluation) -> None:
        super().__init__(values)
        self._evaluation = evaluation

    def __missing__(self, name: str) -> Any:
        self[name] = value = self._evaluation.variable(name, self)
        return value


class _Evaluation:
    """The evaluation of a policy for one write and one parameter."""

    def __init__(self, policy: Policy, values: dict[str, Any]) -> None:
        self._policy = policy
        self._values = _Values(values, self)
        self._variables = {variable.name: variable.expression for variable in policy.variables}
        self._left = MOST_WORK

    def failures(self, *, ignores: bool) -> Iterator[PolicyFailure]:
        """Yields the failed validations. Raises CelError if a matchCondition fails."""
        if not self._matches():
            return
        for validation in self._policy.validations:
            try:
                passes = self._value(validation.expression)
            except CelError as problem:
                if not ignores:
                    yield PolicyFailure(str(problem))
                continue
            if passes is not True:
                spec = validation.spec
                yield PolicyFailure(self._message(validation), spec.get("reason") or "Invalid")
        for annotation in self._policy.annotations:
            try:
                value = self._value(annotation)
            except CelError as problem:
                if not ignores:
                    yield PolicyFailure(str(problem), always=True)
                continue
            if type(value) not in (str, type(None)):
                yield PolicyFailure(_not_text(annotation, value), always=True)

    def variable(self, name: str, values: _Values) -> Any:
        """Returns the value of a variable of the policy. Raises CelError."""
        try:
            return self._variables[name].value(values, self._spend)
        except CelError as problem:
            plain = name.removeprefix("variables.")
            raise CelError(f'composited variable "{plain}" fails to evaluate: {problem}') from None

    def _matches(self) -> bool:
        """True if all matchConditions hold. Raises CelError if one fails and none is false."""
        failed: list[CelError] = []
        for condition in self._policy.conditions:
            try:
                if self._value(condition) is False:
                    return False
            except CelError as problem:
                failed.append(problem)
        if failed:
            raise failed[0]
        return True

    def _value(self, expression: Expression) -> Any:
        if self._left < 0:
            raise CelError(f"validation failed due to {_NO_BUDGET}")
        try:
            return expression.value(self._values, self._spend)
        except CelError as problem:
            text = expression.expression
            raise CelError(f"expression '{text}' resulted in error: {problem}") from None

    def _message(self, validation: Validation) -> str:
        text = ""
        if validation.message is not None:
            try:
                value = self._value(validation.message)
            except CelError:
                value = None
            text = value.strip() if isinstance(value, str) else ""
            if len(text.encode()) > MOST_MESSAGE or "\n" in text:
                text = ""
        text = text or (validation.spec.get("message") or "").strip()
        return text or f"failed expression: {validation.spec['expression'].strip()}"

    def _spend(self, work: int) -> None:
        self._left -= work


def _not_text(annotation: Expression, value: Any) -> str:
    return (
        f"valueExpression '{annotation.expression}' resulted in unsupported return type: "
        f"{TYPE_NAMES[type(value)]}. Return type must be either string or null."
    )
