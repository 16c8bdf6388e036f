"""The options of a request for a log: PodLogOptions, with the rules of Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from berth.actors.scheduling.kube.times import seconds_of

from ...api.requests.list_options import is_on
from ...api.rules.fields import forbidden, invalid
from ...api.types.api_documents import RefusedError

_KIND = "PodLogOptions"


class LogOptions(msgspec.Struct, frozen=True):
    """What to show of a log: lines not before `since` (seconds since 1970), of those the last
    `tail`, and of these `limit` bytes.
    """

    container: str = ""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since: float | None = None
    tail: int | None = None
    limit: int | None = None


def log_options(query: Mapping[str, str], pod: str, now: float) -> LogOptions:
    """Reads the query of a request. Raises RefusedError: 400 if it cannot be read, 422 if it is
    invalid.
    """
    tail, limit = _number(query, "tailLines"), _number(query, "limitBytes")
    seconds, time = _number(query, "sinceSeconds"), query.get("sinceTime", "")
    problems = []
    if tail is not None and tail < 0:
        problems.append(invalid("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        problems.append(invalid("limitBytes", limit, "must be greater than 0"))
    if seconds is not None and time:
        both = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        problems.append(forbidden("[]", both))
    elif seconds is not None and seconds < 1:
        problems.append(invalid("sinceSeconds", seconds, "must be greater than 0"))
    if query.get("stream", "All") != "All":
        problems.append(forbidden("stream", "may not be specified"))
    if problems:
        raise _invalid(pod, problems)
    since = now - seconds if seconds is not None else _time(time) if time else None
    return LogOptions(
        query.get("container", ""),
        is_on(query, "follow"),
        is_on(query, "previous"),
        is_on(query, "timestamps"),
        since,
        tail,
        limit,
    )


def _invalid(pod: str, problems: list[str]) -> RefusedError:
    causes = []
    for problem in problems:
        field, _, message = problem.partition(": ")
        reason = "FieldValueForbidden" if message.startswith("Forbidden") else "FieldValueInvalid"
        causes.append({"reason": reason, "message": message, "field": field})
    listed = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    details = {"name": pod, "kind": _KIND, "causes": causes}
    return RefusedError(422, "Invalid", f'{_KIND} "{pod}" is invalid: {listed}', details)


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        message = f'strconv.ParseInt: parsing "{text[:80]}": invalid syntax'
        raise RefusedError(400, "BadRequest", message) from None


def _time(text: str) -> float:
    try:
        return seconds_of(text)
    except ValueError:
        shown = text[:80]
        expected = f'"2006-01-02T15:04:05Z07:00": cannot parse "{shown}" as "2006"'
        message = f'parsing time "{shown}" as {expected}'
        raise RefusedError(400, "BadRequest", message) from None
