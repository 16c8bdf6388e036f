"""Observers: they are given the durations that kube-scheduler publishes as histograms."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    def decided(self, seconds: float) -> None:
        """The algorithm has chosen a node, or found none. The time is that from PreFilter to Score,
        without the snapshot and the mailboxes.
        """
        ...

    def scheduled(self, seconds: float) -> None:
        """An attempt ended with the pod bound. The time runs from when the queue handed the pod
        out, and includes the binding.
        """
        ...


class Nobody:
    """Ignores all durations."""

    def decided(self, seconds: float) -> None:
        pass

    def scheduled(self, seconds: float) -> None:
        pass


NOBODY = Nobody()


class Both:
    """Passes every duration on to two observers."""

    def __init__(self, first: Observer, second: Observer) -> None:
        self._first = first
        self._second = second

    def decided(self, seconds: float) -> None:
        self._first.decided(seconds)
        self._second.decided(seconds)

    def scheduled(self, seconds: float) -> None:
        self._first.scheduled(seconds)
        self._second.scheduled(seconds)
