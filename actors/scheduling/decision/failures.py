"""What is told of a plugin that failed: to the user in kube-scheduler's words, to the log with the
traceback.

The text says where, which plugin, and what it said. A plugin that raises has no counterpart in
kube-scheduler, nor has one that answers what is no answer; the exception, or what was expected and
what came, stands where the plugin's own error would. A plugin that fails for every pod fails in the
same way each time: such lines of the log are marked as repeats of each other, so that the log need
not show them all.
"""

from __future__ import annotations

import msgspec
import structlog
from berth.actors.scheduling.decision.answers import WrongAnswerError
from berth.actors.scheduling.framework.interface import Plugin
from berth.actors.scheduling.framework.status import Status, error
from berth.actors.scheduling.model.cluster_objects import UnlistedError

log = structlog.get_logger(__name__)

# What a plugin may raise: anything. A task that somebody else cancelled, or an extension that
# panics, raises what is no Exception. `let_pass` keeps what does not come from the plugin.
CRASHES = BaseException
MOST_CHARACTERS = 1_000  # of an exception's text


class Point(msgspec.Struct, frozen=True):
    """An extension point, and how a failure of a plugin there begins. What went wrong is told right
    behind it.
    """

    name: str
    failed: str


PRE_ENQUEUE = Point("PreEnqueue", 'running PreEnqueue plugin "{}": ')
QUEUE_SORT = Point("QueueSort", 'running QueueSort plugin "{}": ')
PRE_FILTER = Point("PreFilter", 'running PreFilter plugin "{}": ')
FILTER = Point("Filter", 'running "{}" filter plugin: ')
POST_FILTER = Point("PostFilter", 'running PostFilter plugin "{}": ')
PRE_SCORE = Point("PreScore", 'running PreScore plugin "{}": ')
SCORE = Point("Score", 'running Score plugins: plugin "{}" failed with: ')
NORMALIZE = Point("NormalizeScore", 'running Normalize on Score plugins: plugin "{}" failed with: ')
APPLY_WEIGHTS = Point("Score", 'applying score defaultWeights on Score plugins: plugin "{}" ')
RESERVE = Point("Reserve", 'running Reserve plugin "{}": ')
UNRESERVE = Point("Unreserve", 'running Unreserve plugin "{}": ')
PERMIT = Point("Permit", 'running Permit plugin "{}": ')
PRE_BIND_PRE_FLIGHT = Point("PreBindPreFlight", 'running PreBindPreFlight "{}": ')
PRE_BIND = Point("PreBind", 'running PreBind plugin "{}": ')
BIND = Point("Bind", 'running Bind plugin "{}": ')
POST_BIND = Point("PostBind", 'running PostBind plugin "{}": ')
EVENTS_TO_REGISTER = Point("EventsToRegister", 'running EventsToRegister of plugin "{}": ')
QUEUEING_HINT = Point("QueueingHint", 'running QueueingHint of plugin "{}": ')


def failure(plugin: Plugin, point: Point, what: str) -> Status:
    return Status(error().code, (f"{point.failed.format(plugin.name)}{what}",), plugin.name)


def crashed(
    plugin: Plugin,
    point: Point,
    exception: BaseException,
    *,
    pod: str = "",
    node: str = "",
    named: str = "",
) -> Status:
    """The plugin raised, or its answer was refused with a WrongAnswerError; logged here, and
    nowhere else.

    Raises what is no failure of the plugin. `pod` is a key; `node` is where it happened, `named`
    the same where the user would not know it otherwise.
    """
    let_pass(exception)
    if isinstance(exception, UnlistedError):  # no mistake of the plugin's
        return error(str(exception)).by(plugin.name)
    node = node or named
    what = text_of(exception)
    known = {"point": point.name, "plugin": plugin.name, "pod": pod, "node": node, "error": what}
    trace = None if isinstance(exception, WrongAnswerError) else exception
    log.error(
        "plugin failed",
        **{field: value for field, value in known.items() if value},
        **({} if trace is None else {"exc_info": trace}),
        repeats=(plugin.name, point.name, type(exception), _place(exception)),
    )
    return failure(plugin, point, f"{what} (node {named})" if named else what)


def let_pass(exception: BaseException) -> None:
    """Raise what only came by while a plugin ran: the process is to end, or nobody waits for the
    answer any more.
    """
    if isinstance(exception, KeyboardInterrupt | GeneratorExit):
        raise exception


def refused(plugin: Plugin, point: Point, status: Status) -> Status:
    """An answer that ends the attempt: a rejection in the plugin's own words, all else as an
    error.
    """
    return signed(plugin, status) if status.rejected else as_error(plugin, point, status)


def signed(plugin: Plugin, status: Status) -> Status:
    """The plugin's answer under its name, whatever name it gave there."""
    return Status(status.code, status.reasons, plugin.name)


def as_error(plugin: Plugin, point: Point, status: Status) -> Status:
    return failure(plugin, point, status.message or f"unexpected status {status.code.label}")


def unsupported_pre_flight(plugin: Plugin, status: Status) -> Status:
    supported = "It is supposed to return Success, Skip, or Error status"
    problem = f'PreBindPreFlight {plugin.name} returned "{status.code.label}", which is unsupported. {supported}'
    return error(problem).by(plugin.name)


def text_of(exception: BaseException) -> str:
    """The kind and the text of an exception, which may itself fail to make its text."""
    kind = type(exception).__name__
    try:
        text = str(exception)
    except CRASHES as another:
        let_pass(another)
        text = "(its text cannot be made)"
    if isinstance(exception, WrongAnswerError):
        return text
    if len(text) > MOST_CHARACTERS:
        text = f"{text[:MOST_CHARACTERS]} ..."
    return f"{kind}: {text}" if text else kind


def _place(exception: BaseException) -> str:
    """The line that raised it."""
    trace = exception.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
