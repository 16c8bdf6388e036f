"""The calls of a plugin's methods in a cluster: about which pod, where, and with which answer."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Generator, Iterable
from functools import partial, wraps
from types import GeneratorType
from typing import Any

import msgspec

from berth.actors.scheduling.decision.overruns import calls_plugins
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.meta import key
from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.plugin import FailedAttempt, Plugin

MOST_CALLS = 100_000  # of a cluster; the oldest go first
METHODS = (
    "bind",
    "filter",
    "filter_node",
    "normalize",
    "normalize_scores",
    "passing",
    "permit",
    "post_bind",
    "post_filter",
    "pre_bind",
    "pre_bind_pre_flight",
    "pre_enqueue",
    "pre_filter",
    "pre_score",
    "reserve",
    "roll_back",
    "score",
    "score_node",
    "sort_key",
    "unreserve",
)


class PluginCall(msgspec.Struct, frozen=True):
    """A call of a plugin's method about a pod (namespace/name). `node` is the name of the node that
    it was about, or "". `answer` is what it returned, or the exception that it raised.
    """

    plugin: str
    method: str
    pod: str
    node: str
    answer: Any


class RecordedCalls:
    """The calls of some plugins."""

    def __init__(self) -> None:
        self._calls: deque[PluginCall] = deque(maxlen=MOST_CALLS)

    def of(self, plugin: str, method: str) -> list[PluginCall]:
        """Returns the calls of a method of a plugin, oldest first. Raises LookupError for a name
        that no method has.
        """
        if method not in METHODS:
            raise LookupError(f"expected one of {', '.join(METHODS)}, got {method!r}")
        return [call for call in self._calls if (call.plugin, call.method) == (plugin, method)]

    def latest(self) -> Iterable[PluginCall]:
        """Returns all calls, the latest first."""
        return reversed(self._calls)

    def recording(self, kinds: Iterable[type[Plugin]]) -> tuple[type[Plugin], ...]:
        """Returns classes whose plugins are like those of the given classes, and recorded."""
        return tuple(map(self._recording, kinds))

    def _recording(self, kind: type[Plugin]) -> type[Plugin]:
        calls = self._calls

        def init(plugin: Any, args: dict[str, Any], handle: Any) -> None:
            kind.__init__(plugin, args, handle)
            for method in METHODS:
                function = getattr(plugin, method, None)
                if function is not None:
                    setattr(plugin, method, _recorded(kind.name, method, function, calls))
            # From here on the plugin is one of its own class.
            plugin.__class__ = kind

        made: type[Plugin] = type(
            kind.__name__, (kind,), {"__init__": init, "__module__": kind.__module__}
        )
        return made


def _recorded(
    plugin: str, method: str, function: Callable[..., Any], calls: deque[PluginCall]
) -> Callable[..., Any]:
    def note(args: tuple[Any, ...], answer: Any) -> None:
        about = [each.info if isinstance(each, FailedAttempt) else each for each in args]
        infos = [each for each in about if isinstance(each, PodInfo | Pod)]
        nodes = [each for each in args if isinstance(each, str | NodeInfo)]
        pod = "" if not infos else _key(infos[0])
        node = "" if not nodes else nodes[0] if isinstance(nodes[0], str) else nodes[0].name
        calls.append(PluginCall(plugin, method, pod, node, answer))

    if inspect.iscoroutinefunction(function):

        @calls_plugins
        @wraps(function)
        async def waits(*args: Any) -> Any:
            try:
                answer = await function(*args)
            except BaseException as raised:
                note(args, raised)
                raise
            note(args, answer)
            return answer

        return waits

    @calls_plugins
    @wraps(function)
    def call(*args: Any) -> Any:
        try:
            answer = function(*args)
        except BaseException as raised:
            note(args, raised)
            raise
        if isinstance(answer, GeneratorType):
            return _NotedSteps(answer, partial(note, args))
        note(args, answer)
        return answer

    return call


class _NotedSteps(Generator[Any, Any, Any]):
    """The steps of a hook, whose answer is noted at their end."""

    def __init__(self, steps: Generator[Any, Any, Any], note: Callable[[Any], None]) -> None:
        self._steps, self._note = steps, note

    def send(self, value: Any) -> Any:
        return self._next(partial(self._steps.send, value))

    def throw(self, *raised: Any) -> Any:
        return self._next(partial(self._steps.throw, *raised))

    def close(self) -> None:
        self._steps.close()

    def _next(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except StopIteration as done:
            self._note(done.value)
            raise
        except BaseException as raised:
            self._note(raised)
            raise


def _key(pod: PodInfo | Pod) -> str:
    return pod.key if isinstance(pod, PodInfo) else key(pod)
