"""The pods between Permit and Bind: the plugins that each pod waits for, its deadlines, and its
verdict. Pure.

A pod waits, then is in PreBind, then is forgotten. A pod that no plugin makes wait begins with
PreBind. Invariant: a pod has at most one verdict in each phase, and the first one stands, except
that an allowed pod can still be preempted. Plugins call this through their handle and not by a
message, because they need the answer at once. Mirrors kube-scheduler's waitingPodsMap and
podsInPreBindMap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from berth.config.types import Duration

from ..messages.binding import WaitingPodDump
from ..scheduling.framework.handle import WaitingPod
from ..scheduling.framework.handle_values import checked_reason
from ..scheduling.framework.status import SUCCESS, Code, Status, error, unschedulable
from ..scheduling.model.pod_info import PodInfo

MOST_WAIT_SECONDS = 15 * 60.0


class _WaitingPod(msgspec.Struct, eq=False):
    info: PodInfo
    node: str
    seconds: dict[str, float]
    deadlines: dict[str, float]
    verdict: Status | None = None
    wake: Callable[[], None] | None = None

    def decide(self, verdict: Status) -> None:
        first = self.verdict is None
        self.verdict = verdict
        if first and self.wake is not None:
            self.wake()


class _PodInPreBind(msgspec.Struct, eq=False):
    cancel: Callable[[], None]
    verdict: Status | None = None


class BindingStatistics(msgspec.Struct, frozen=True):
    waiting: int
    in_pre_bind: int


class PodsInBinding:
    """The pods in binding by uid. Implements the handle's WaitingPods."""

    def __init__(self) -> None:
        self._waiting: dict[str, _WaitingPod] = {}
        self._pre_binding: dict[str, _PodInPreBind] = {}

    # ------------------------------------------------------------------------------- for plugins

    def each(self) -> tuple[WaitingPod, ...]:
        return tuple(
            _as_plugins_see_it(pod) for pod in self._waiting.values() if pod.verdict is None
        )

    def get(self, uid: str) -> WaitingPod | None:
        pod = self._undecided_pod(uid)
        return None if pod is None else _as_plugins_see_it(pod)

    def allow(self, uid: str, plugin: str) -> bool:
        """Records that a plugin allows the pod to proceed. True if no other plugin makes it
        wait.
        """
        pod = self._undecided_pod(uid)
        if pod is None or pod.deadlines.pop(plugin, None) is None or pod.deadlines:
            return False
        pod.decide(SUCCESS)
        return True

    def reject(self, uid: str, plugin: str, reason: str) -> bool:
        """Rejects the pod on behalf of `plugin`. False if it no longer waits."""
        reason = checked_reason(reason)
        pod = self._undecided_pod(uid)
        if pod is None:
            return False
        pod.decide(Status(Code.UNSCHEDULABLE, (reason,), plugin))
        return True

    def preempt(self, uid: str, plugin: str, reason: str) -> bool:
        """Stops a pod that waits or is in PreBind, and returns it to the queue. False if there is
        no such pod, or it is too late.
        """
        reason = checked_reason(reason)
        pod = self._waiting.get(uid)
        if pod is not None:
            # A pod that was rejected a moment ago gives up its room anyway.
            if pod.verdict is None or pod.verdict.ok:
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
        """Makes a pod wait for each plugin in `waits`, for its seconds, but at most 15 minutes."""
        assert waits
        seconds = {plugin: min(wait, MOST_WAIT_SECONDS) for plugin, wait in waits.items()}
        deadlines = {plugin: now + wait for plugin, wait in seconds.items()}
        self._waiting[info.uid] = _WaitingPod(info, node, seconds, deadlines)

    def wake_by(self, uid: str, wake: Callable[[], None]) -> None:
        """Calls `wake` as soon as there is a verdict."""
        self._waiting[uid].wake = wake

    def deadline(self, uid: str) -> float:
        """Returns the earliest deadline of the pod's plugins, in monotonic seconds."""
        return min(self._waiting[uid].deadlines.values())

    def expire(self, uid: str, now: float) -> bool:
        """Rejects the pod if a plugin's deadline has passed. True if it was rejected."""
        pod = self._undecided_pod(uid)
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
        """Removes the pod from the waiting pods and returns its verdict; None if there is none
        yet.
        """
        pod = self._waiting[uid]
        if pod.verdict is not None:
            del self._waiting[uid]
        return pod.verdict

    def start_pre_bind(self, uid: str, cancel: Callable[[], None]) -> None:
        """Records the start of PreBind. `cancel` is called if the pod is preempted."""
        self._pre_binding[uid] = _PodInPreBind(cancel)

    def finish_pre_bind(self, uid: str) -> Status:
        """Records the end of PreBind, after which the pod cannot be stopped. Returns the status
        that stopped it before, or success.
        """
        return self._pre_binding.pop(uid).verdict or SUCCESS

    def forget(self, uid: str) -> None:
        """Forgets a pod whose binding cycle has ended."""
        self._waiting.pop(uid, None)
        self._pre_binding.pop(uid, None)

    # -------------------------------------------------------------------------------------- looking

    def _undecided_pod(self, uid: str) -> _WaitingPod | None:
        pod = self._waiting.get(uid)
        return None if pod is None or pod.verdict is not None else pod

    def dump(self, now: float) -> tuple[WaitingPodDump, ...]:
        """Returns the pods that wait on Permit, for `berth debug`."""
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
        """Raises AssertionError if an invariant does not hold."""
        for uid, pod in self._waiting.items():
            assert pod.verdict is not None or pod.deadlines, f"{uid} waits for nobody"
            assert uid not in self._pre_binding, f"{uid} waits and is in PreBind"


def _as_plugins_see_it(pod: _WaitingPod) -> WaitingPod:
    return WaitingPod(pod.info, pod.node, tuple(pod.deadlines))
