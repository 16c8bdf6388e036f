"""Rules for the pods of a job that have ended: how they count by index, exit code and condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .fields import Document, duplicate, invalid, one_of, required, unsupported

_MOST_INDEXES = 100_000
_MOST_OF_LARGE = 10_000
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")


def completion_mode_fields(path: str, spec: Document) -> Iterator[str]:
    """Checks the fields of a job that depend on its completion mode."""
    per_index, most = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    if most is not None and per_index is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if spec.get("completionMode") == "Indexed":
        yield from _indexed_job(path, spec)
        return
    for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
        if spec.get(field) is not None:
            yield invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")


def _indexed_job(path: str, spec: Document) -> Iterator[str]:
    completions, parallelism = spec.get("completions"), spec.get("parallelism") or 0
    most, failed = spec.get("maxFailedIndexes"), f"{path}.maxFailedIndexes"
    if completions is None:
        yield required(f"{path}.completions", "when completion mode is Indexed")
    if parallelism > _MOST_INDEXES:
        detail = f"must be less than or equal to {_MOST_INDEXES} when completion mode is Indexed"
        yield invalid(f"{path}.parallelism", parallelism, detail)
    if most is not None and completions is not None and most > completions:
        yield invalid(failed, most, "must be less than or equal to completions")
    if most is not None and most > _MOST_INDEXES:
        yield invalid(failed, most, f"must be less than or equal to {_MOST_INDEXES}")
    if (completions or 0) <= _MOST_INDEXES or spec.get("backoffLimitPerIndex") is None:
        return
    detail = (
        f"must be less than or equal to {_MOST_OF_LARGE} when completions are above "
        f"{_MOST_INDEXES} and used with backoff limit per index"
    )
    if most is None:
        yield required(failed, f"must be specified when completions is above {_MOST_INDEXES}")
    if parallelism > _MOST_OF_LARGE:
        yield invalid(f"{path}.parallelism", parallelism, detail)
    if most is not None and most > _MOST_OF_LARGE:
        yield invalid(failed, most, detail)


def end_policies(path: str, spec: Document) -> Iterator[str]:
    """Checks the success policy, the failure policy and the replacement policy."""
    failure, success = spec.get("podFailurePolicy"), spec.get("successPolicy")
    if failure is not None:
        pod = (spec.get("template") or {}).get("spec") or {}
        containers = [*(pod.get("containers") or ()), *(pod.get("initContainers") or ())]
        names = {each.get("name") for each in containers}
        for i, rule in enumerate(failure.get("rules") or ()):
            yield from _failure_rule(f"{path}.podFailurePolicy.rules[{i}]", rule, names, spec)
    if success is not None:
        place = f"{path}.successPolicy"
        if spec.get("completionMode") != "Indexed":
            shown = {"Rules": success.get("rules")}
            yield invalid(place, shown, "requires indexed completion mode")
        else:
            yield from _success(f"{place}.rules", success, spec.get("completions") or 0)
    choices = ("Failed",) if failure is not None else ("Failed", "TerminatingOrFailed")
    place = f"{path}.podReplacementPolicy"
    yield from one_of(place, spec.get("podReplacementPolicy"), choices)


def _success(path: str, policy: Document, completions: int) -> Iterator[str]:
    if not policy.get("rules"):
        detail = "at least one rules must be specified when the successPolicy is specified"
        yield required(path, detail)
    for i, rule in enumerate(policy.get("rules") or ()):
        yield from _success_rule(f"{path}[{i}]", rule, completions)


def _success_rule(path: str, rule: Document, completions: int) -> Iterator[str]:
    indexes, count, total = rule.get("succeededIndexes"), rule.get("succeededCount"), 0
    if indexes is None and count is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    if indexes is not None:
        try:
            total = _number_of_indexes(indexes, completions)
        except ValueError as why:
            detail = f"error parsing succeededIndexes: {why}"
            yield invalid(f"{path}.succeededIndexes", indexes, detail)
    place, rule_of_count = f"{path}.succeededCount", "must be less than or equal to"
    if count is not None and count > completions:
        detail = f"{rule_of_count} {completions} (the number of specified completions)"
        yield invalid(place, count, detail)
    if count is not None and indexes is not None and count > total:
        what = "the number of indexes in the specified succeededIndexes field"
        yield invalid(place, count, f"{rule_of_count} {total} ({what})")


def _number_of_indexes(text: str, completions: int) -> int:
    """Returns the number of indexes in a text such as 0,2-5.

    Raises ValueError, in the words of Kubernetes, if it is malformed.
    """
    total, last = 0, -1
    for interval in text.split(",") if text else ():
        parts = interval.split("-")
        if len(parts) > 2:
            raise ValueError(
                f'the fragment "{interval}" violates the requirement that an index interval '
                "can have at most two parts separated by '-'"
            )
        first, *rest = (_index(part, completions) for part in parts)
        end = rest[0] if rest else first
        if rest and first >= end:
            raise ValueError(f"non-increasing order, previous: {first}, current: {end}")
        if last >= first:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        total, last = total + end - first + 1, end
    return total


def _index(text: str, completions: int) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f'cannot convert string to integer for index: "{text}"')
    if int(text) >= completions:
        raise ValueError(f'too large index: "{text}"')
    return int(text)


def _failure_rule(path: str, rule: Document, containers: set[Any], spec: Document) -> list[str]:
    action, codes = rule.get("action") or "", rule.get("onExitCodes")
    patterns, problems = rule.get("onPodConditions") or (), []
    if not action:
        problems.append(required(f"{path}.action", f"valid values: {_quoted(_ACTIONS)}"))
    elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        detail = "requires the backoffLimitPerIndex to be set"
        problems.append(invalid(f"{path}.action", action, detail))
    elif action not in _ACTIONS:
        problems.append(unsupported(f"{path}.action", action, _ACTIONS))
    if codes is not None:
        problems += _exit_codes(f"{path}.onExitCodes", codes, containers)
    if (codes is None) == (not patterns):
        which = "specifying one of OnExitCodes and OnPodConditions is required"
        both = "specifying both OnExitCodes and OnPodConditions is not supported"
        problems.append(f"{path}: Invalid value: {which if codes is None else both}")
    return problems


def _exit_codes(path: str, codes: Document, containers: set[Any]) -> Iterator[str]:
    values, operator, name = (
        codes.get("values") or [],
        codes.get("operator"),
        codes.get("containerName"),
    )
    operators = ("In", "NotIn")
    if not operator:
        yield required(f"{path}.operator", f"valid values: {_quoted(operators)}")
    elif operator not in operators:
        yield unsupported(f"{path}.operator", operator, operators)
    if name is not None and name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", name, detail)
    if not values:
        yield invalid(f"{path}.values", codes.get("values"), "at least one value is required")
    for i, value in enumerate(values):
        if operator == "In" and value == 0:
            yield invalid(f"{path}.values[{i}]", 0, "must not be 0 for the In operator")
        if value in values[:i]:
            yield duplicate(f"{path}.values[{i}]", value)
    if values != sorted(values):
        yield invalid(f"{path}.values", values, "must be ordered")


def _quoted(words: Sequence[str]) -> str:
    """Returns a list of words as Go prints it."""
    listed = " ".join(f'"{word}"' for word in words)
    return f"[{listed}]"
