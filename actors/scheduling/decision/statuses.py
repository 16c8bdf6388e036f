"""The statuses that a plugin may return at each extension point, and how others are treated.

They are the checks of hooks (see guard), and the checks of the codes that filters give many nodes
at once. A status that ends the attempt is raised as a PluginError.
Mirrors how frameworkImpl treats each code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..framework.interface import Plugin, PreBindPreFlightResult, PreFilterResult
from ..framework.status import SKIP, SUCCESS, Code, Status
from ..framework.verdicts import Diagnosis, Verdicts
from ..model.pod_info import PodInfo
from ..model.vectors import any_true, highest, lowest
from .answers import as_permission, as_reasons, as_status, expected, node_names_of
from .failures import (
    FILTER,
    PluginError,
    as_error,
    failure_status,
    refused_status,
    unsupported_pre_flight,
    with_plugin_name,
)
from .guard import Hook
from .watched_hook import guarded_call

_REJECTIONS = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
_FILTER_CODES = (Code.SUCCESS, *_REJECTIONS, Code.PENDING)
_ERROR, _MOSTLY = int(Code.ERROR), int(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


def as_success(answer: object, _about: object, hook: Hook[Any]) -> Status:
    status = as_status(answer)
    if status.ok:
        return SUCCESS
    raise PluginError(refused_status(hook.plugin, hook.point, status))


def as_binding(answer: object, about: object, hook: Hook[Any]) -> Status:
    """Returns the status if it is success, or SKIP, which leaves the pod to the next Bind
    plugin.
    """
    status = as_status(answer)
    return SKIP if status.code is Code.SKIP else as_success(status, about, hook)


def as_pre_filtered(answer: object, _about: object, hook: Hook[Any]) -> Status | PreFilterResult:
    """Returns the answer of PreFilter: success with the nodes that are left, SKIP, or a
    rejection.
    """
    if isinstance(answer, PreFilterResult):
        return PreFilterResult(node_names_of(answer), answer.passes_all is True)
    status = as_status(answer, "a Status or a PreFilterResult")
    if status.code in _REJECTIONS:
        return with_plugin_name(hook.plugin, status)
    return as_success_or_skip(status, _about, hook)


def as_success_or_skip(answer: object, _about: object, hook: Hook[Any]) -> Status:
    """Returns the status if it is success or SKIP."""
    status = as_status(answer)
    if status.ok:
        return SUCCESS
    if status.code is Code.SKIP:
        return SKIP
    raise PluginError(as_error(hook.plugin, hook.point, status))


def as_verdict(answer: object, _about: object, hook: Hook[Any]) -> Status:
    """Returns the status if it is success or a rejection of the node."""
    status = as_status(answer)
    if status.ok or status.rejected:
        return status
    raise PluginError(as_error(hook.plugin, hook.point, status))


def as_permit_answer(answer: object, about: object, hook: Hook[Any]) -> tuple[Status, float]:
    """Returns the answer of Permit: success, or WAIT with its seconds."""
    status, seconds = as_permission(answer)
    if status.code is Code.WAIT:
        return status, seconds
    return as_success(status, about, hook), seconds


def as_pre_flight(
    answer: object, _about: object, hook: Hook[Any]
) -> Status | PreBindPreFlightResult:
    """Returns the answer of PreBindPreFlight: success, a PreBindPreFlightResult, or SKIP."""
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


def with_safe_reasons(plugin: Plugin, info: PodInfo, verdicts: Verdicts) -> Verdicts:
    """Returns verdicts whose reasons cannot fail. They are read after the filters, when no attempt
    can fail any more.
    """
    explain = guarded_call(
        plugin,
        FILTER,
        verdicts.explain,
        as_reasons,
        lambda status, _: status.reasons,
        lambda _: info.pod,
    )
    return Verdicts(verdicts.codes, verdicts.keys, explain)


def has_unusual_codes(codes: NDArray[np.int8]) -> bool:
    """True if there are codes other than the usual ones of filters."""
    return len(codes) > 0 and (
        not 0 <= lowest(codes) <= highest(codes) <= _MOSTLY or any_true(codes == _ERROR)
    )


def check_codes(filters: Sequence[Plugin], info: PodInfo, diagnosis: Diagnosis) -> None:
    """Raises PluginError if a filter gave a node ERROR, or a code that a filter may not return."""
    for position in np.flatnonzero(~np.isin(diagnosis.codes, _FILTER_CODES)).tolist():
        view = diagnosis.view
        if view.info(position) is None:
            continue  # The row has no node, so the verdict does not count.
        name, code = diagnosis.plugins[diagnosis.by[position]], int(diagnosis.codes[position])
        plugin = next(plugin for plugin in filters if plugin.name == name)
        if code == _ERROR:
            raise PluginError(as_error(plugin, FILTER, diagnosis.status(position)))
        problem = expected("the code of Success or of a rejection", code)
        raise PluginError(
            failure_status(plugin, FILTER, problem, pod=info.key, named=view.name(position))
        )
