"""The Python steps of pods, and the functions of their templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from itertools import count
from math import inf
from typing import Any

from ..objects import Document
from .containers import CRASH_LOOP, Backoffs, Exit, after_exits, creating, progress
from .readiness import Readiness
from .stages.actions import Action, DeleteObject, PatchObject, RecordEvent
from .stages.go_builtins import Functions
from .times import time_of

STOP_SECONDS = "berth.dev/stop-seconds"
VERSION = "hollow"
_FAILED = "pod-container-running-failed.stage.kwok.x-k8s.io"
_ADDRESSES = IPv4Address("10.244.0.1")


class PodSteps:
    """The steps of pods; `host` returns the address of a node."""

    def __init__(self, readiness: Readiness, host: Callable[[str], str], began: str) -> None:
        self._readiness = readiness
        self._host = host
        self._began = began
        self._numbers = count()
        self._backoffs = Backoffs()

    def forget(self, pod: Document) -> None:
        """Forgets a pod that no longer exists."""
        self._readiness.forget(pod)
        self._backoffs.forget(pod["metadata"]["uid"])

    def due(self, step: str, pod: Document, since: float) -> float | None:
        """Returns when a step is due; a pod starts once its volumes and devices are ready."""
        status = pod.get("status") or {}
        match step:
            case "start" if not status.get("podIP"):
                waits = any(self._readiness.lacks(pod))
                return inf if waits and status.get("containerStatuses") else since
            case "start" | "run":
                then = progress(pod, since)
                return since if then.status["conditions"] else then.due
            case "stop":
                return since + _seconds_to_stop(pod)
        return since

    def run(self, step: str, pod: Document, now: float) -> Iterator[Action]:
        match step:
            case "start":
                yield self._start(pod, now)
            case "run":
                yield PatchObject({"status": progress(pod, now).status})
            case "complete":
                yield from self._exit(pod, now, lambda _: Exit())
            case "fail":
                how = _failure(pod)
                name = _annotation(pod, f"{_FAILED}/container-name")
                yield from self._exit(
                    pod, now, lambda container: how if name in ("", container["name"]) else None
                )
            case "kill":
                yield RecordEvent("Warning", "Unhealthy", "Liveness probe failed: hollow")
                how = Exit(137, "Error")
                yield from self._exit(
                    pod, now, lambda container: how if "livenessProbe" in container else None
                )
            case "stop":
                yield DeleteObject()

    def _start(self, pod: Document, now: float) -> Action:
        status, time = pod.get("status") or {}, time_of(now)
        host = self._host(pod["spec"]["nodeName"])
        began = {
            "hostIP": host,
            "hostIPs": [{"ip": host}],
            "startTime": status.get("startTime") or time,
        }
        if not status.get("podIP") and any(self._readiness.lacks(pod)):
            waiting = [creating(container) for container in pod["spec"]["containers"]]
            return PatchObject(
                {"status": {"phase": "Pending", **began, "containerStatuses": waiting}}
            )
        address = self._address(pod)
        own = {"podIP": address, "podIPs": [{"ip": address}]}
        return PatchObject({"status": {**began, **own, **progress(pod, now).status}})

    def _exit(
        self, pod: Document, now: float, exits: Callable[[Document], Exit | None]
    ) -> Iterator[Action]:
        """Ends containers, and reports those that wait for their restart."""
        status = after_exits(pod, now, exits, self._backoffs).status
        yield PatchObject({"status": status})
        for container in status["containerStatuses"]:
            if container["state"].get("waiting", {}).get("reason") == CRASH_LOOP:
                name, which = container["name"], pod["metadata"]
                where = f"{which['name']}_{which['namespace']}({which['uid']})"
                message = f"Back-off restarting failed container {name} in pod {where}"
                yield RecordEvent("Warning", "BackOff", message)

    def functions(self, pod: Document, now: float) -> Functions:
        host = self._host(pod["spec"]["nodeName"])

        def address(*_: Any) -> str:
            return self._address(pod)

        return {
            "Now": lambda: time_of(now),
            "StartTime": lambda: self._began,
            "Version": lambda: VERSION,
            "NodeName": lambda: pod["spec"]["nodeName"],
            "NodeIP": lambda: host,
            "NodePort": lambda: None,
            "NodeIPWith": self._host,
            "NodeIPsWith": lambda name: [self._host(name)],
            "PodIP": address,
            "PodIPWith": address,
            "PodIPsWith": lambda *_: [address()],
        }

    def _address(self, pod: Document) -> str:
        """Returns the address of a pod: the one that it has, the node's, or a new one."""
        if pod["spec"].get("hostNetwork"):
            return self._host(pod["spec"]["nodeName"])
        own: str | None = (pod.get("status") or {}).get("podIP")
        return own or str(_ADDRESSES + next(self._numbers) % 65_000)


def _annotation(pod: Document, name: str, default: str = "") -> str:
    text: str = (pod["metadata"].get("annotations") or {}).get(name, default)
    return text


def _failure(pod: Document) -> Exit:
    """Returns how the containers of a pod fail, as its annotations say."""
    code = _annotation(pod, f"{_FAILED}/exit-code", "1")
    return Exit(
        int(code) if code.isdecimal() else 1,
        _annotation(pod, f"{_FAILED}/reason", "Error"),
        _annotation(pod, f"{_FAILED}/message"),
    )


def _seconds_to_stop(pod: Document) -> float:
    """Returns how long the containers take to stop: no longer than the grace period."""
    phase = (pod.get("status") or {}).get("phase")
    if phase != "Running":
        return 0.0
    hooks = (container.get("lifecycle") or {} for container in pod["spec"]["containers"])
    sleeps = ((hook.get("preStop") or {}).get("sleep") or {} for hook in hooks)
    longest = max((sleep.get("seconds") or 0 for sleep in sleeps), default=0)
    try:
        stop = float(_annotation(pod, STOP_SECONDS, "0"))
    except ValueError:
        stop = 0.0
    return float(min(longest + stop, pod["metadata"].get("deletionGracePeriodSeconds") or 0))
