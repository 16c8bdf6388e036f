"""The options of a list or a watch that say where it begins, with the rules for their combinations.

Mirrors the validation and the defaults of metav1.ListOptions.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..rules.fields import forbidden, unsupported
from ..types.api_documents import RefusedError
from .option_problems import invalid_options

EXACT, NOT_OLDER = "Exact", "NotOlderThan"
MATCH, SENDS = "resourceVersionMatch", "sendInitialEvents"


def check_list(query: Mapping[str, str]) -> None:
    """Raises RefusedError with 422 for options that a list may not have."""
    match, version = query.get(MATCH, ""), query.get("resourceVersion", "")
    problems = []
    if match:
        if not version:
            problems.append(
                forbidden(MATCH, f"{MATCH} is forbidden unless resourceVersion is provided")
            )
        problems += _with_continue(query)
        if match not in (EXACT, NOT_OLDER):
            problems.append(unsupported(MATCH, match, (EXACT, NOT_OLDER, "")))
        if match == EXACT and version == "0":
            problems.append(
                forbidden(MATCH, f'{MATCH} "exact" is forbidden for resourceVersion "0"')
            )
    if SENDS in query:
        problems.append(forbidden(SENDS, f"{SENDS} is forbidden for list"))
    _refuse(problems)


def sends_initial_events(query: Mapping[str, str]) -> bool:
    """True if a watch begins with an event for each object.

    Raises RefusedError with 422 for options that a watch may not have.
    """
    match, stated = query.get(MATCH, ""), SENDS in query
    problems = []
    if stated and match != NOT_OLDER:
        problems.append(forbidden(MATCH, f"{SENDS} requires setting {MATCH} to {NOT_OLDER}"))
    if match:
        if not stated:
            problems.append(
                forbidden(MATCH, f"{MATCH} is forbidden for watch unless {SENDS} is provided")
            )
        if match != NOT_OLDER:
            problems.append(unsupported(MATCH, match, (NOT_OLDER,)))
    if match or query.get("resourceVersion", "") in ("", "0"):
        problems += _with_continue(query)
    _refuse(problems)
    if stated:
        return is_on(query, SENDS)
    return query.get("resourceVersion", "") in ("", "0")


def is_on(query: Mapping[str, str], option: str) -> bool:
    """Reads an option as the API server does: every value but false and 0 switches it on."""
    return query.get(option, "0").lower() not in ("false", "0")


def too_large(revision: int, current: int) -> RefusedError:
    """Returns the refusal of a list that must not be older than a future revision."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    return RefusedError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def _with_continue(query: Mapping[str, str]) -> list[str]:
    problem = forbidden(MATCH, f"{MATCH} is forbidden when continue is provided")
    return [problem] if query.get("continue") else []


def _refuse(problems: list[str]) -> None:
    if problems:
        raise invalid_options("ListOptions", problems)
