"""The waiting pods: who waits for which Permit plugin, until when, and what became of it. Pure."""

from __future__ import annotations

import msgspec

from actors.framework.status import SUCCESS, Code, Status, unschedulable


class _Waiting:
    __slots__ = ("deadlines", "verdict")

    def __init__(self, deadlines: dict[str, float]) -> None:
        self.deadlines = deadlines
        self.verdict: Status | None = None


class WaitingStatistics(msgspec.Struct, frozen=True):
    waiting: int


class WaitingPods:
    """By uid. A pod has at most one verdict; the first one stands."""

    def __init__(self) -> None:
        self._pods: dict[str, _Waiting] = {}

    def add(self, uid: str, waits: dict[str, float], now: float) -> None:
        """A pod waits for each plugin of `waits` for that many seconds."""
        assert waits
        self._pods[uid] = _Waiting({plugin: now + seconds for plugin, seconds in waits.items()})

    def allow(self, uid: str, plugin: str) -> bool:
        """A plugin lets the pod go on; true if it was the last one to."""
        pod = self._pods.get(uid)
        if pod is None or pod.verdict is not None or pod.deadlines.pop(plugin, None) is None or pod.deadlines:
            return False
        pod.verdict = SUCCESS
        return True

    def reject(self, uid: str, plugin: str, reason: str) -> bool:
        """A plugin turns the pod away; false if it does not wait any more."""
        pod = self._pods.get(uid)
        if pod is None or pod.verdict is not None:
            return False
        pod.verdict = Status(Code.UNSCHEDULABLE, (reason,), plugin)
        return True

    def expire(self, uid: str, now: float) -> bool:
        """Turn the pod away if a plugin's time is over; true if it did."""
        pod = self._pods.get(uid)
        if pod is None or pod.verdict is not None:
            return False
        late = sorted(plugin for plugin, deadline in pod.deadlines.items() if deadline <= now)
        if not late:
            return False
        pod.verdict = unschedulable(f"rejected due to timeout after waiting at plugin {late[0]}").by(late[0])
        return True

    def deadline(self, uid: str) -> float:
        """When the first of the plugins that the pod waits for has waited long enough."""
        return min(self._pods[uid].deadlines.values())

    def take(self, uid: str) -> Status | None:
        """The verdict, if there is one; the pod does not wait any more then."""
        pod = self._pods[uid]
        if pod.verdict is not None:
            del self._pods[uid]
        return pod.verdict

    def forget(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def statistics(self) -> WaitingStatistics:
        return WaitingStatistics(len(self._pods))

    def validate(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        for uid, pod in self._pods.items():
            assert pod.verdict is not None or pod.deadlines, f"{uid} waits for nobody"
