"""The settings of kubelets. The last configuration that selects a node counts.

A node that none selects has the defaults of the kubelet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from berth.actors.scheduling.kube.labels import EVERYTHING, Selector

from .thresholds import (
    DEFAULT_HARD,
    Threshold,
    parse_thresholds,
    with_allocatable,
)

MONITORING_SECONDS = 10.0
TRANSITION_SECONDS = 300.0
FILE_CHECK_SECONDS = 20.0
IMAGE_SECONDS = 120.0


class Settings(msgspec.Struct, frozen=True):
    """The settings of a kubelet that hollow kubelets use. Times are in seconds.

    `most_pods` is None if the configuration does not set it.
    """

    thresholds: tuple[Threshold, ...]
    transition: float = TRANSITION_SECONDS
    most_grace: int = 0
    most_pods: int | None = None
    isolates_storage: bool = True
    static_managers: tuple[str, ...] = ()  # the resources of Guaranteed pods that they allot
    static_pods: str | None = None  # the folder, or the file, of manifests
    file_check: float = FILE_CHECK_SECONDS
    image_high: int = 85  # percent of the disk of images
    image_low: int = 80
    image_least_age: float = IMAGE_SECONDS
    most_pids: int | None = None  # of a pod


class Configuration(msgspec.Struct, frozen=True):
    """The settings of the nodes that a selector selects."""

    settings: Settings
    nodes: Selector = EVERYTHING


DEFAULTS = Settings(tuple(with_allocatable(parse_thresholds(DEFAULT_HARD, {}, {}, {}))))


def settings_for(labels: Mapping[str, str], configurations: Sequence[Configuration]) -> Settings:
    """Returns the settings of a node with these labels."""
    selecting = (c.settings for c in reversed(configurations) if c.nodes.matches(labels))
    return next(selecting, DEFAULTS)
