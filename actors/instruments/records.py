"""Records: the durations of extension points and plugins in one attempt.

A record belongs to one attempt, whose extension points follow each other, in the scheduling cycle
and then in the binding cycle. The histograms that it observes are looked up once for each profile.
"""

from __future__ import annotations

from collections.abc import Callable

from berth.actors.instruments.families import Families
from berth.actors.scheduling.framework.status import SUCCESS, Code


def is_detailed(number: int) -> bool:
    """True for ten numbers of every hundred, at irregular distances: a workload may repeat itself
    after every ten pods.
    """
    return number * 37 % 100 < 10


Observe = Callable[[float], None]
_SUCCESS = SUCCESS.code


class _Successes(dict[str, Observe]):
    """The histograms of the extension points that ended with success, by the point."""

    def __init__(self, families: Families, profile: str) -> None:
        super().__init__()
        self._families = families
        self._profile = profile

    def __missing__(self, point: str) -> Observe:
        duration = self._families.point_duration
        self[point] = observe = duration.child(point, "Success", self._profile).observe
        return observe


class ProfileChildren:
    """The children that the records of one profile write to."""

    def __init__(self, families: Families, profile: str) -> None:
        self.families = families
        self.profile = profile
        self.succeeded = _Successes(families, profile)
        hints = families.node_hint_duration
        self.hint = hints.child("hint", profile).observe
        self.no_hint = hints.child("no_hint", profile).observe
        attempts = families.batch_attempts
        self.used = attempts.child(profile, "hint_used")
        self.not_found = attempts.child(profile, "no_hint")

    def ended(self, point: str, code: Code, seconds: float) -> None:
        if code is _SUCCESS:
            self.succeeded[point](seconds)
        else:
            child = self.families.point_duration.child(point, code.label, self.profile)
            child.observe(seconds)


class AttemptRecord:
    """Implements framework.measuring.Record."""

    __slots__ = ("_children", "_point", "_since", "detailed", "now")

    def __init__(
        self, children: ProfileChildren, now: Callable[[], float], *, detailed: bool
    ) -> None:
        self._children = children
        self._point = ""
        self._since = 0.0
        self.now = now
        self.detailed = detailed

    def enter(self, point: str) -> None:
        now = self.now()
        if self._point:
            self._children.succeeded[self._point](now - self._since)
        self._point = point
        self._since = now

    def leave(self, code: Code = _SUCCESS) -> None:
        if self._point:
            self._children.ended(self._point, code, self.now() - self._since)
            self._point = ""

    def ran(self, plugin: str, point: str, code: Code, started: float) -> None:
        duration = self._children.families.plugin_duration
        duration.child(plugin, point, code.label).observe(self.now() - started)

    def end(self, result: str, node: str = "") -> None:
        pass  # Instruments.attempt_ended has it.

    def recalled(self, *, found: bool) -> None:
        seconds = self.now() - self._since
        if found:
            self._children.hint(seconds)
            self._children.used.value += 1
        else:
            self._children.no_hint(seconds)
            self._children.not_found.value += 1

    def dropped(self) -> None:
        self._point = ""
        profile, families = self._children.profile, self._children.families
        self._children.used.value -= 1
        families.batch_attempts.child(profile, "hint_not_used").inc()
        families.batch_flushed.child(profile, "pod_failed").inc()


class GateRecord(AttemptRecord):
    """The record of all PreEnqueue calls of a profile, which belong to no attempt. As in
    kube-scheduler, each counts as a success, whatever the plugins answer.
    """

    __slots__ = ("_calls",)

    def __init__(self, children: ProfileChildren, now: Callable[[], float]) -> None:
        super().__init__(children, now, detailed=False)
        self._calls = 0

    def enter(self, point: str) -> None:
        self.detailed = is_detailed(self._calls)
        self._calls += 1
        super().enter(point)

    def leave(self, code: Code = _SUCCESS) -> None:
        super().leave()
