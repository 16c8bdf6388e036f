"""The statuses that a plugin may answer at each extension point, and the treatment of others.

They are the checks of hooks (see guard). A status that ends the attempt is raised as a PluginError.
Mirrors how frameworkImpl treats each code.
"""

from __future__ import annotations

from typing import Any

from ..framework.interface import PreBindPreFlightResult, PreFilterResult
from ..framework.status import SKIP, SUCCESS, Code, Status
from .answers import as_permission, as_status, node_names_of
from .failures import PluginError, as_error, refused, signed, unsupported_pre_flight
from .guard import Hook

_REJECTIONS = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


def as_success(answer: object, _about: object, hook: Hook[Any]) -> Status:
    status = as_status(answer)
    if status.ok:
        return SUCCESS
    raise PluginError(refused(hook.plugin, hook.point, status))


def as_binding(answer: object, about: object, hook: Hook[Any]) -> Status:
    """Returns success, or SKIP, which leaves the pod to the next plugin."""
    status = as_status(answer)
    return SKIP if status.code is Code.SKIP else as_success(status, about, hook)


def as_pre_filtered(answer: object, _about: object, hook: Hook[Any]) -> Status | PreFilterResult:
    """Returns success with the nodes that the plugin leaves, SKIP, or a rejection of the pod."""
    if isinstance(answer, PreFilterResult):
        return PreFilterResult(node_names_of(answer), answer.passes_all is True)
    status = as_status(answer)
    if status.code in _REJECTIONS:
        return signed(hook.plugin, status)
    return as_unskipped(status, _about, hook)


def as_unskipped(answer: object, _about: object, hook: Hook[Any]) -> Status:
    """Returns success or SKIP."""
    status = as_status(answer)
    if status.ok:
        return SUCCESS
    if status.code is Code.SKIP:
        return SKIP
    raise PluginError(as_error(hook.plugin, hook.point, status))


def as_verdict(answer: object, _about: object, hook: Hook[Any]) -> Status:
    """Returns success or a rejection of the node."""
    status = as_status(answer)
    if status.ok or status.rejected:
        return status
    raise PluginError(as_error(hook.plugin, hook.point, status))


def as_permitted(answer: object, about: object, hook: Hook[Any]) -> tuple[Status, float]:
    """Returns success, or WAIT with the seconds."""
    status, seconds = as_permission(answer)
    if status.code is Code.WAIT:
        return status, seconds
    return as_success(status, about, hook), seconds


def as_pre_flight(
    answer: object, _about: object, hook: Hook[Any]
) -> Status | PreBindPreFlightResult:
    """Returns success, a PreBindPreFlightResult, or SKIP."""
    if isinstance(answer, PreBindPreFlightResult):
        return answer
    status = as_status(answer)
    if status.code is Code.ERROR:
        raise PluginError(as_error(hook.plugin, hook.point, status))
    if not status.ok and status.code is not Code.SKIP:
        raise PluginError(unsupported_pre_flight(hook.plugin, status))
    return SUCCESS if status.ok else SKIP


def unchecked(answer: Any, _about: object, _hook: object) -> Any:
    return answer
