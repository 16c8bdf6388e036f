"""What a user reads of a plugin that failed: where, which plugin, and what it said, in kube-scheduler's words.

A plugin that raises has no counterpart there; the exception stands where the plugin's own error would.
"""

from __future__ import annotations

from actors.framework.interface import Plugin
from actors.framework.status import Status, error

# Where a plugin failed. What went wrong is told behind it, after a colon.
PRE_ENQUEUE = 'running PreEnqueue plugin "{}"'
PRE_FILTER = 'running PreFilter plugin "{}"'
FILTER = 'running "{}" filter plugin'
POST_FILTER = 'running PostFilter plugin "{}"'
PRE_SCORE = 'running PreScore plugin "{}"'
SCORE = 'running Score plugins: plugin "{}" failed with'
NORMALIZE = 'running Normalize on Score plugins: plugin "{}" failed with'
RESERVE = 'running Reserve plugin "{}"'
UNRESERVE = 'running Unreserve plugin "{}"'
PERMIT = 'running Permit plugin "{}"'
PRE_BIND_PRE_FLIGHT = 'running PreBindPreFlight "{}"'
PRE_BIND = 'running PreBind plugin "{}"'
BIND = 'running Bind plugin "{}"'
POST_BIND = 'running PostBind plugin "{}"'


def failure(plugin: Plugin, where: str, what: str) -> Status:
    return error(f"{where.format(plugin.name)}: {what}").by(plugin.name)


def crashed(plugin: Plugin, where: str, exception: Exception) -> Status:
    """The plugin raised."""
    return failure(plugin, where, f"{type(exception).__name__}: {exception}")


def answered(answer: object) -> Status:
    """The answer, if it is a Status. Raises TypeError if it is none: most often a `return` was forgotten."""
    if isinstance(answer, Status):
        return answer
    raise TypeError(f"expected a Status, got {answer!r}")


def refused(plugin: Plugin, where: str, status: Status) -> Status:
    """An answer that ends the attempt: a rejection in the plugin's own words, all else as an error."""
    return status.by(plugin.name) if status.rejected else as_error(plugin, where, status)


def as_error(plugin: Plugin, where: str, status: Status) -> Status:
    return failure(plugin, where, status.message or f"unexpected status {status.code.label}")


def invalid_score(plugin: Plugin, score: int, least: int, most: int) -> Status:
    where = f'applying score defaultWeights on Score plugins: plugin "{plugin.name}"'
    problem = f"returns an invalid score {score}, it should in the range of [{least}, {most}] after normalizing"
    return error(f"{where} {problem}").by(plugin.name)


def unsupported_pre_flight(plugin: Plugin, status: Status) -> Status:
    supported = "It is supposed to return Success, Skip, or Error status"
    problem = f'PreBindPreFlight {plugin.name} returned "{status.code.label}", which is unsupported. {supported}'
    return error(problem).by(plugin.name)
