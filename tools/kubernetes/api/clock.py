"""The current time in the form in which Kubernetes objects carry it."""

from __future__ import annotations

from time import time as seconds

from berth.actors.scheduling.kube.times import time_of


def now() -> str:
    return time_of(int(seconds()))
