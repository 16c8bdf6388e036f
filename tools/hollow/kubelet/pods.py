"""The Python steps of pods, and the functions of their templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from itertools import count
from math import inf
from typing import Any

from ..objects import Document
from .player import time_of
from .readiness import Readiness
from .stages.actions import Action, PatchObject
from .stages.go_builtins import Functions
from .statuses import creating_status, running_status, succeeded_status

VERSION = "hollow"
_ADDRESSES = IPv4Address("10.244.0.1")


class PodSteps:
    """The steps `start` and `complete`; `host` returns the address of a node."""

    def __init__(self, readiness: Readiness, host: Callable[[str], str], began: str) -> None:
        self._readiness = readiness
        self._host = host
        self._began = began
        self._numbers = count()

    def due(self, step: str, pod: Document, since: float) -> float | None:
        """A pod starts once its volumes and devices are ready; before, it says that it waits."""
        if step != "start":
            return since
        waits = any(self._readiness.lacks(pod))
        return inf if waits and pod["status"].get("containerStatuses") else since

    def run(self, step: str, pod: Document, now: float) -> Iterator[Action]:
        time = time_of(now)
        match step:
            case "complete":
                yield PatchObject({"status": succeeded_status(pod, time)})
            case "start":
                host = self._host(pod["spec"]["nodeName"])
                if any(self._readiness.lacks(pod)):
                    yield PatchObject({"status": creating_status(pod, host, time)})
                else:
                    status = running_status(pod, host, self._address(pod), time)
                    yield PatchObject({"status": status})

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
