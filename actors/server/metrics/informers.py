"""Metrics of the informers, which are counted when they are read. Mirrors client-go's informer
metrics, which kube-scheduler has since 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...scheduling.kube.kinds import WatchedKind
from ...telemetry.measures import ALPHA, Registry

NAME = "kube-scheduler"
LABELS = ("name", "group", "version", "resource")
DIGITS = 15  # of a resource version, which may have more than a float holds


def register_informers(
    registry: Registry, resource_versions: Callable[[], Mapping[WatchedKind, str]]
) -> None:
    """Registers the families. `resource_versions` returns the resource version of the latest change
    of each kind that is followed, "" if there was none.
    """
    version = registry.gauge(
        "informer_store_resource_version",
        "The 15 least significant digits of the resource version of the store.",
        LABELS,
        ALPHA,
    )
    queued = registry.gauge(
        "informer_queued_items",
        "Number of items currently queued in the FIFO.",
        LABELS,
        ALPHA,
    )

    async def refresh() -> None:
        for kind, text in resource_versions().items():
            if text.isascii() and text.isdecimal():
                version.child(*_labels(kind)).set(int(text[-DIGITS:]))
            queued.child(*_labels(kind)).set(0)  # An informer passes on at once what has come.

    registry.refresh_by(refresh)


def _labels(kind: WatchedKind) -> tuple[str, str, str, str]:
    group, _, version = kind.api_version.rpartition("/")
    return NAME, group, version, kind.path.rpartition("/")[2]
