"""The decisions of admission policies about a write. Mirrors the plugin
ValidatingAdmissionPolicy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from berth.actors.scheduling.cel import CelError, Expression
from berth.actors.scheduling.cel.values import TYPE_NAMES

from ..policy_expressions import Validation, policy_of
from ..rules.fields import printed_value
from ..store import Store
from ..types.api_documents import Document, RefusedError, StoredObject
from ..types.resources import Kind
from .policy_evaluation import ConfigurationError, Evaluation, parameters_of
from .policy_writes import BINDINGS, POLICIES, POLICY_KINDS, Write, matched_kind, values_of

MOST_MESSAGE = 5 << 10
_CODES = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}


class PolicyFailure(msgspec.Struct, frozen=True):
    """A failed validation. `always` is true if it refuses the write whatever the binding's actions
    are.
    """

    message: str
    reason: str = "Invalid"
    always: bool = False


def judge(store: Store, write: Write) -> list[str]:
    """Returns the warnings of all policies. Raises RefusedError if one of them refuses a write."""
    if write.kind in POLICY_KINDS:
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
        parameters = parameters_of(store, spec, binding["spec"], write)
    except ConfigurationError as problem:
        if not ignores:
            message = f"failed to configure binding: {problem}"
            yield PolicyFailure(message, always=True)
        return
    for params in parameters:
        values = {**values_of(write, kind), "params": params}
        evaluation = Evaluation(policy_of(stored), values)
        try:
            yield from _failed_validations(evaluation, ignores=ignores)
        except CelError as problem:
            if not ignores:
                yield PolicyFailure(str(problem))


def _failed_validations(evaluation: Evaluation, *, ignores: bool) -> Iterator[PolicyFailure]:
    """Yields the failed validations. Raises CelError if a matchCondition fails."""
    if not evaluation.matches():
        return
    for validation in evaluation.policy.validations:
        try:
            passes = evaluation.value_of(validation.expression)
        except CelError as problem:
            if not ignores:
                yield PolicyFailure(str(problem))
            continue
        if passes is not True:
            spec = validation.spec
            yield PolicyFailure(_message(evaluation, validation), spec.get("reason") or "Invalid")
    for annotation in evaluation.policy.annotations:
        try:
            value = evaluation.value_of(annotation)
        except CelError as problem:
            if not ignores:
                yield PolicyFailure(str(problem), always=True)
            continue
        if type(value) not in (str, type(None)):
            yield PolicyFailure(_not_text(annotation, value), always=True)


def _message(evaluation: Evaluation, validation: Validation) -> str:
    text = ""
    if validation.message is not None:
        try:
            value = evaluation.value_of(validation.message)
        except CelError:
            value = None
        text = value.strip() if isinstance(value, str) else ""
        if len(text.encode()) > MOST_MESSAGE or "\n" in text:
            text = ""
    text = text or (validation.spec.get("message") or "").strip()
    return text or f"failed expression: {validation.spec['expression'].strip()}"


def _not_text(annotation: Expression, value: Any) -> str:
    return (
        f"valueExpression '{annotation.expression}' resulted in unsupported return type: "
        f"{TYPE_NAMES[type(value)]}. Return type must be either string or null."
    )
