"""Who is told how long things took: the measure of a pod's way that kube-scheduler publishes as
histograms.
"""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    def decided(self, seconds: float) -> None:
        """The algorithm has chosen a node, or found none: PreFilter to Score. Snapshot and
        mailboxes are outside.
        """
        ...

    def scheduled(self, seconds: float) -> None:
        """An attempt ended with the pod bound; from its being taken out of the queue, the binding
        included.
        """
        ...


class Nobody:
    """Nothing is measured."""

    def decided(self, seconds: float) -> None:
        pass

    def scheduled(self, seconds: float) -> None:
        pass


NOBODY = Nobody()
