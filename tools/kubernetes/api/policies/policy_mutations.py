"""What mutating admission policies make of an object. Mirrors the plugin MutatingAdmissionPolicy.

An expression builds a part of the object, which is merged into it as server-side apply would, or a
JSON patch. No field is owned on that account.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from berth.actors.scheduling.cel import CelError
from berth.actors.scheduling.cel.built import OBJECT, as_json, misnamed
from berth.actors.scheduling.cel.values import Built

from ..ownership.field_sets import FieldSetError
from ..ownership.merge_types import DEDUCED, MergeType
from ..ownership.merging import merged
from ..ownership.updates import merge_type
from ..ownership.wellformed import apply_problems
from ..policy_expressions import Mutation, policy_of
from ..requests.json_patch import TestFailedError, UnfitError, json_patched
from ..store import Store
from ..types.api_documents import Document, RefusedError, StoredObject
from ..types.conversion import served_form, stored_form
from ..types.resources import Kind
from .policy_evaluation import ConfigurationError, Evaluation, parameters_of
from .policy_writes import (
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    POLICY_KINDS,
    Write,
    matched_kind,
    values_of,
    with_system_fields,
)
from .reinvocation import Reinvocation

# Returns a stored object that was changed, decoded and with its defaults. Raises RefusedError.
Decoded = Callable[[Document], Document]


class UnfitMutationError(Exception):
    """A mutation that does not fit its object."""


class Invocation(msgspec.Struct, frozen=True):
    """A policy that is asked about a write, with a binding and a parameter; `kind` is the one by
    which it matches.
    """

    policy: StoredObject
    binding: Document
    kind: Kind
    params: Any

    @property
    def key(self) -> tuple[str, str, str, str]:
        of = (self.params or {}).get("metadata") or {}
        names = self.policy.document["metadata"]["name"], self.binding["metadata"]["name"]
        return (*names, of.get("namespace") or "", of.get("name") or "")

    @property
    def spec(self) -> Document:
        spec: Document = self.policy.document["spec"]
        return spec


def mutated(store: Store, write: Write, decoded: Decoded, rounds: Reinvocation) -> Document | None:
    """Returns the stored form of the object as the policies change it, None if they do not. Raises
    RefusedError if one of them fails.
    """
    if write.kind in POLICY_KINDS or write.after is None:
        return None
    asked, before, failures = rounds.policies, write.after, list[str]()
    if rounds.is_again:
        asked.begin(before)
    for invocation in _invocations(store, write, failures):
        if rounds.is_again and not asked.is_due(invocation.key):
            continue
        changed = _invoked(store, write, invocation, decoded, failures)
        if changed is None:
            continue
        if changed != write.after:
            write = msgspec.structs.replace(write, after=changed)
            asked.changed()
            rounds.is_needed = True
        asked.asked(invocation.key, invocation.spec.get("reinvocationPolicy"))
    asked.end(write.after)
    if failures:
        raise _refusal(write, failures)
    return None if write.after is before else write.after


def _invocations(store: Store, write: Write, failures: list[str]) -> Iterator[Invocation]:
    """Yields the policies to ask, by their names and those of their bindings. Adds the bindings
    that are not usable to the failures.
    """
    bindings: dict[str, list[Document]] = {}
    for stored in store.list(MUTATING_BINDINGS):
        bindings.setdefault(stored.document["spec"]["policyName"], []).append(stored.document)
    for stored in store.list(MUTATING_POLICIES):
        spec, name = stored.document["spec"], stored.document["metadata"]["name"]
        kind = matched_kind(spec["matchConstraints"], write) if name in bindings else None
        if kind is None:
            continue
        for binding in bindings[name]:
            resources = binding["spec"].get("matchResources")
            if resources is not None and matched_kind(resources, write) is None:
                continue
            try:
                parameters = parameters_of(store, spec, binding["spec"], write)
            except ConfigurationError as problem:
                why = f"failed to configure binding: {problem}"
                failures += _failure(Invocation(stored, binding, kind, None), why)
                continue
            for params in parameters:
                yield Invocation(stored, binding, kind, params)


def _failure(invocation: Invocation, why: str) -> list[str]:
    """Returns what a failure of a policy says; nothing if the policy ignores failures."""
    if invocation.spec.get("failurePolicy") == "Ignore":
        return []
    policy, binding = invocation.key[:2]
    return [f"policy '{policy}' with binding '{binding}' denied request: {why}"]


def _invoked(
    store: Store, write: Write, invocation: Invocation, decoded: Decoded, failures: list[str]
) -> Document | None:
    """Returns the object after the mutations of a policy, None if it is not asked."""
    policy, kind = policy_of(invocation.policy), invocation.kind

    def evaluation() -> Evaluation:
        return Evaluation(policy, {**values_of(write, kind), "params": invocation.params})

    try:
        if not evaluation().matches():
            return None
    except CelError as problem:
        failures += _failure(invocation, str(problem))
        return None
    of = merge_type(store.catalog, kind)
    for mutation in policy.mutations:
        before: Document = write.after or {}
        try:
            after = _changed(of, served_form(kind, before), mutation, evaluation())
        except (CelError, UnfitMutationError) as problem:
            failures += _failure(invocation, str(problem))
            continue
        after = decoded(stored_form(kind, with_system_fields(kind, after, before)))
        write = msgspec.structs.replace(write, after=after)
    return write.after


def _changed(of: MergeType, document: Document, mutation: Mutation, with_: Evaluation) -> Document:
    """Returns an object after one mutation. Raises CelError and UnfitMutationError."""
    value = with_.value_of(mutation.expression)
    if mutation.is_patch:
        return _patched(document, value)
    if problems := list(misnamed(value, OBJECT)):
        raise UnfitMutationError("type mismatch: " + "\n".join(problems))
    try:
        return _merged(of, document, as_json(value))
    except (FieldSetError, UnfitMutationError) as problem:
        raise UnfitMutationError(f"error applying patch: {problem}") from None


def _patched(document: Document, operations: list[Built]) -> Document:
    for operation in operations:
        value = operation.get("value")
        problems = list(misnamed(value, value.type_name)) if type(value) is Built else []
        if problems:
            raise UnfitMutationError("type mismatch: " + "\n".join(problems))
    try:
        patched: Document = json_patched(document, as_json(operations))
    except TestFailedError:
        return document
    except (UnfitError, RefusedError) as problem:
        raise UnfitMutationError(f"JSON Patch: {problem}") from None
    return patched


def _merged(of: MergeType, document: Document, applied: Document) -> Document:
    """Returns an object with a part merged into it. Raises UnfitMutationError."""
    applied = {**applied, "apiVersion": document["apiVersion"], "kind": document["kind"]}
    if problems := apply_problems(of, applied):
        why = problems[0] if len(problems) == 1 else "errors:\n  " + "\n  ".join(problems)
        raise UnfitMutationError(f"failed to convert patch object to typed object: {why}")
    if atomic := list(_atomic_parts(of, applied, "")):
        why = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        raise UnfitMutationError(f"invalid ApplyConfiguration: {why}")
    result: Document = merged(of, document, applied)
    return result


def _atomic_parts(of: MergeType, value: Any, path: str) -> Iterator[str]:
    """Yields the paths of what would be replaced as a whole."""
    if type(value) is dict and of.is_map:
        if of.is_atomic:
            yield path
        fields = of.fields
        for key, each in value.items():
            if key in fields:
                yield from _atomic_parts(fields[key], each, f"{path}.{key}")
    elif type(value) is list and of.item is not None:
        if of.keys is None:
            yield path
        for i, each in enumerate(value):
            yield from _atomic_parts(of.item or DEDUCED, each, f"{path}[{i}]")


def _refusal(write: Write, failures: list[str]) -> RefusedError:
    kind = write.kind
    details = {"name": write.name, "group": kind.group, "kind": kind.plural}
    details = {field: value for field, value in details.items() if value}
    causes = [{"message": message} for message in failures]
    return RefusedError(403, "Invalid", failures[0], {**details, "causes": causes})
