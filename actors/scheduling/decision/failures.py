"""Failures of plugins: the message for the user in kube-scheduler's words, and the log line with
the traceback.

The message has the extension point, the plugin and its error. kube-scheduler has no plugins that
raise or give invalid answers; in these cases the exception, or the expected and the actual answer,
replaces the plugin's error. A plugin that fails for every pod fails in the same way each time: such
log lines are marked as repeats of each other, so that the log need not show them all.
"""

from __future__ import annotations

from opcode import opmap
from types import FrameType, TracebackType

import msgspec

from ..framework.interface import Plugin
from ..framework.logger import get_logger
from ..framework.status import Status, UserMessageError, encodable, error
from ..model.cluster_objects import UnlistedError
from .answers import WrongAnswerError

log = get_logger(__name__)

# A plugin may raise anything. A task that was cancelled elsewhere, or an extension that panics,
# raises a BaseException that is not an Exception. `raise_if_not_plugins` raises exceptions again
# that do not come from the plugin.
CRASHES = BaseException
MOST_CHARACTERS = 1_000  # of an exception's text
_RAISE = opmap["RAISE_VARARGS"]
# Their text tells the user all, without the type and the traceback.
_IN_WORDS = (WrongAnswerError, UserMessageError)


class PluginError(Exception):
    """The failure of a plugin, which ends the attempt, with its status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class Point(msgspec.Struct, frozen=True):
    """An extension point. `failed` is the beginning of the message about a failure there, before
    the error.

    `metric` is the name of the point in metrics if that differs, and "" if its plugins are not
    timed.
    """

    name: str
    failed: str
    metric: str | None = None


PRE_ENQUEUE = Point("PreEnqueue", 'running PreEnqueue plugin "{}": ')
QUEUE_SORT = Point("QueueSort", 'running QueueSort plugin "{}": ')
PRE_FILTER = Point("PreFilter", 'running PreFilter plugin "{}": ')
FILTER = Point("Filter", 'running "{}" filter plugin: ')
POST_FILTER = Point("PostFilter", 'running PostFilter plugin "{}": ')
PRE_SCORE = Point("PreScore", 'running PreScore plugin "{}": ')
SCORE = Point("Score", 'running Score plugins: plugin "{}" failed with: ')
NORMALIZE = Point(
    "NormalizeScore",
    'running Normalize on Score plugins: plugin "{}" failed with: ',
    "ScoreExtensionNormalize",
)
APPLY_WEIGHTS = Point("Score", 'applying score defaultWeights on Score plugins: plugin "{}" ')
RESERVE = Point("Reserve", 'running Reserve plugin "{}": ')
ROLL_BACK = Point("RollBack", 'running RollBack of PreBind plugin "{}": ', "")
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


def failure_status(
    plugin: Plugin,
    point: Point,
    exception: BaseException,
    *,
    pod: str = "",
    node: str = "",
    named: str = "",
) -> Status:
    """Returns the status after a plugin raised or gave an answer that a check refused. Only this
    function logs such failures.

    Raises the exception again if it does not come from the plugin. `pod` is a key. `node` is the
    node in question; pass it as `named` if the message must name it, because the user would not
    know it otherwise.
    """
    raise_if_not_plugins(exception)
    if isinstance(exception, UnlistedError):  # not the plugin's mistake
        return error(str(exception)).by(plugin.name)
    node = node or named
    what = text_of(exception)
    fields = {"point": point.name, "plugin": plugin.name, "pod": pod, "node": node, "error": what}
    trace = None if isinstance(exception, _IN_WORDS) else exception
    log.error(
        "plugin failed",
        **{field: value for field, value in fields.items() if value},
        **({} if trace is None else {"exc_info": trace}),
        repeats=(plugin.name, point.name, type(exception), _place(exception)),
    )
    return failure(plugin, point, f"{what} (node {named})" if named else what)


def raise_if_not_plugins(exception: BaseException) -> None:
    """Raises an exception that is not the plugin's fault again: the process is ending."""
    if isinstance(exception, KeyboardInterrupt) and not is_raised_by_hand(exception):
        raise exception


def is_unawaited(exception: BaseException) -> bool:
    """True for the end of a coroutine, or a generator, whose answer nobody waits for any more."""
    return isinstance(exception, GeneratorExit) and not is_raised_by_hand(exception)


def is_raised_by_hand(exception: BaseException) -> bool:
    """True if a `raise` statement raised an exception. The handler of a signal raises its
    KeyboardInterrupt between two steps, and the end of a coroutine its GeneratorExit at an `await`.
    """
    trace = _innermost(exception)
    if trace is None:
        return False
    frame = trace.tb_frame
    by_statement = frame.f_code.co_code[trace.tb_lasti] == _RAISE
    # A handler that is written in Python has the interrupted frame as an argument.
    handles_signal = any(isinstance(value, FrameType) for value in frame.f_locals.values())
    return by_statement and not handles_signal


def refused_status(plugin: Plugin, point: Point, status: Status) -> Status:
    """Returns the status that ends the attempt: the plugin's reasons for a rejection, an error for
    anything else.
    """
    return with_plugin_name(plugin, status) if status.rejected else as_error(plugin, point, status)


def with_plugin_name(plugin: Plugin, status: Status) -> Status:
    """Returns the status with this plugin's name in place of any other."""
    return Status(status.code, status.reasons, plugin.name)


def as_error(plugin: Plugin, point: Point, status: Status) -> Status:
    return failure(plugin, point, status.message or f"unexpected status {status.code.label}")


def unsupported_pre_flight(plugin: Plugin, status: Status) -> Status:
    problem = (
        f'PreBindPreFlight {plugin.name} returned "{status.code.label}", which is unsupported. '
        "It is supposed to return Success, Skip, or Error status"
    )
    return error(problem).by(plugin.name)


def text_of(exception: BaseException) -> str:
    """Returns the type and the text of an exception, even if `__str__` fails.

    The type is left out if the text is meant for users.
    """
    kind = type(exception).__name__
    try:
        text = encodable(str(exception))
    except CRASHES as another:
        raise_if_not_plugins(another)
        text = "(its text cannot be made)"
    if isinstance(exception, _IN_WORDS):
        return text
    if len(text) > MOST_CHARACTERS:
        text = f"{text[:MOST_CHARACTERS]} ..."
    return f"{kind}: {text}" if text else kind


def _place(exception: BaseException) -> str:
    """Returns the file and line that raised the exception."""
    trace = _innermost(exception)
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


def _innermost(exception: BaseException) -> TracebackType | None:
    trace = exception.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace
