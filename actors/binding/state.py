"""The pods between Permit and Bind: who waits for which plugin, until when, and what became of it.
Pure.

A pod waits, then is in PreBind, then is gone from here; a pod that nobody makes wait begins with
PreBind. Invariant: a pod has at most one verdict in each phase, and the first one stands, except
that a pod which was let go on can still be preempted. Plugins reach this through their handle, at
once and not by a message, because who preempts must know whether the pod could still be stopped.
Mirrors kube-scheduler's waitingPodsMap and podsInPreBindMap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from berth.actors.messages import WaitingPodDump
from berth.actors.scheduling.framework.interface import WaitingPod
from berth.actors.scheduling.framework.status import SUCCESS, Code, Status, error, unschedulable
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.config.types import Duration

MOST_WAIT_SECONDS = 15 * 60.0


class _Waiting:
    __slots__ = ("deadlines", "info", "node", "seconds", "verdict", "wake")

    def __init__(self, info: PodInfo, node: str, seconds: dict[str, float], now: float) -> None:
        self.info = info
        self.node = node
        self.seconds = seconds
        self.deadlines = {plugin: now + wait for plugin, wait in seconds.items()}
        self.verdict: Status | None = None
        self.wake: Callable[[], None] | None = None

    def decide(self, verdict: Status) -> None:
        first = self.verdict is None
        self.verdict = verdict
        if first and self.wake is not None:
            self.wake()


class _PreBinding:
    __slots__ = ("cancel", "verdict")

    def __init__(self, cancel: Callable[[], None]) -> None:
        self.cancel = cancel
        self.verdict: Status | None = None


class BindingStatistics(msgspec.Struct, frozen=True):
    waiting: int
    in_pre_bind: int


class PodsInBinding:
    """By uid. Implements the handle's WaitingPods."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        self._pre_binding: dict[str, _PreBinding] = {}

    # -------------------------------------------------------------------------- what plugins may do

    def each(self) -> tuple[WaitingPod, ...]:
        return tuple(_told(pod) for pod in self._waiting.values() if pod.verdict is None)

    def get(self, uid: str) -> WaitingPod | None:
        pod = self._undecided(uid)
        return None if pod is None else _told(pod)

    def allow(self, uid: str, plugin: str) -> bool:
        """A plugin lets the pod go on; true if it was the last one to."""
        pod = self._undecided(uid)
        if pod is None or pod.deadlines.pop(plugin, None) is None or pod.deadlines:
            return False
        pod.decide(SUCCESS)
        return True

    def reject(self, uid: str, plugin: str, reason: str) -> bool:
        """Turn the pod away for `plugin`; false if it does not wait any more."""
        pod = self._undecided(uid)
        if pod is None:
            return False
        pod.decide(Status(Code.UNSCHEDULABLE, (reason,), plugin))
        return True

    def preempt(self, uid: str, plugin: str, reason: str) -> bool:
        """Stop a pod that waits or is in PreBind, for it to be tried again; false if it is too
        late.
        """
        pod = self._waiting.get(uid)
        if pod is not None:
            if (
                pod.verdict is None or pod.verdict.ok
            ):  # Else it was turned away just now, and gives its room up anyway.
                pod.decide(error(f"waiting on permit for pod: {reason}").by(plugin))
            return True
        stopped = self._pre_binding.get(uid)
        if stopped is None:
            return False
        if stopped.verdict is None:
            stopped.verdict = error(f"{reason} by {plugin}").by(plugin)
            stopped.cancel()
        return True

    # ---------------------------------------------------------------------------- the binding cycle

    def wait(self, info: PodInfo, node: str, waits: Mapping[str, float], now: float) -> None:
        """A pod waits for each plugin of `waits` for that many seconds, 15 minutes at most."""
        assert waits
        seconds = {plugin: min(wait, MOST_WAIT_SECONDS) for plugin, wait in waits.items()}
        self._waiting[info.uid] = _Waiting(info, node, seconds, now)

    def wake_by(self, uid: str, wake: Callable[[], None]) -> None:
        """Call `wake` as soon as there is a verdict."""
        self._waiting[uid].wake = wake

    def deadline(self, uid: str) -> float:
        """When the first of the plugins that the pod waits for has waited long enough."""
        return min(self._waiting[uid].deadlines.values())

    def expire(self, uid: str, now: float) -> bool:
        """Turn the pod away if a plugin's time is over; true if it did."""
        pod = self._undecided(uid)
        if pod is None:
            return False
        late = sorted(plugin for plugin, deadline in pod.deadlines.items() if deadline <= now)
        if not late:
            return False
        waited = Duration(pod.seconds[late[0]]).in_go()
        pod.decide(
            unschedulable(f"rejected due to timeout after waiting {waited} at plugin {late[0]}").by(
                late[0]
            )
        )
        return True

    def take(self, uid: str) -> Status | None:
        """The verdict, if there is one; the pod does not wait any more then."""
        pod = self._waiting[uid]
        if pod.verdict is not None:
            del self._waiting[uid]
        return pod.verdict

    def start_pre_bind(self, uid: str, cancel: Callable[[], None]) -> None:
        """PreBind begins; `cancel` stops it if the pod is preempted."""
        self._pre_binding[uid] = _PreBinding(cancel)

    def finish_pre_bind(self, uid: str) -> Status:
        """PreBind is over and the pod cannot be stopped any more; what it was stopped with, or
        success.
        """
        return self._pre_binding.pop(uid).verdict or SUCCESS

    def forget(self, uid: str) -> None:
        """The binding cycle ended."""
        self._waiting.pop(uid, None)
        self._pre_binding.pop(uid, None)

    # -------------------------------------------------------------------------------------- looking

    def _undecided(self, uid: str) -> _Waiting | None:
        pod = self._waiting.get(uid)
        return None if pod is None or pod.verdict is not None else pod

    def dump(self, now: float) -> tuple[WaitingPodDump, ...]:
        """The pods that wait on Permit, for people to read."""
        return tuple(
            WaitingPodDump(
                pod.info.key,
                uid,
                pod.node,
                {plugin: end - now for plugin, end in pod.deadlines.items()},
            )
            for uid, pod in self._waiting.items()
            if pod.verdict is None
        )

    def statistics(self) -> BindingStatistics:
        return BindingStatistics(len(self._waiting), len(self._pre_binding))

    def validate(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        for uid, pod in self._waiting.items():
            assert pod.verdict is not None or pod.deadlines, f"{uid} waits for nobody"
            assert uid not in self._pre_binding, f"{uid} waits and is in PreBind"


def _told(pod: _Waiting) -> WaitingPod:
    return WaitingPod(pod.info, pod.node, tuple(pod.deadlines))
