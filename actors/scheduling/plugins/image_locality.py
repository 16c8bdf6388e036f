"""ImageLocality: prefers nodes that already have the pod's images, by their size and spread.

An image counts as size x (nodes that have it / all nodes), in bytes. The sum is scaled between
23 MiB and 1000 MiB per container, from Kubernetes 1.37 on also per image volume
(ImageVolumesInThreshold). The factor for the spread keeps pods from crowding onto the few
nodes that happen to have an image.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from berth.plugin import (
    MAX_NODE_SCORE,
    CycleState,
    DependsOn,
    Handle,
    Ints,
    NodeView,
    Pod,
    PodInfo,
    ScorePlugin,
)

from ..kube.quantity import MAX_INT64

MIN_THRESHOLD = 23 * 1024 * 1024
MAX_CONTAINER_THRESHOLD = 1000 * 1024 * 1024


class ImageLocality(ScorePlugin):
    name = "ImageLocality"
    depends_on = DependsOn.ALL_NODES

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        super().__init__(args, handle)
        self._scales_by_volumes = handle.feature_gates["ImageVolumesInThreshold"]

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        columns = nodes.columns
        total_nodes = len(columns.order)
        sums = np.zeros(nodes.size, dtype=np.int64)
        images = _images(info.pod)
        # Each size is limited so that the sum fits in an int64.
        largest = MAX_INT64 // max(len(images), 1)
        for image in images:
            column = columns.images.get(normalized_image_name(image))
            if column is not None:
                spread = column.nodes / total_nodes
                size = max(-largest, min(int(column.size_bytes * spread), largest))
                sums += column.present[nodes.rows] * size
        spec = info.pod.spec
        containers = len(spec.init_containers) + len(spec.containers)
        scaled = len(images) if self._scales_by_volumes else containers
        max_threshold = MAX_CONTAINER_THRESHOLD * scaled
        clipped = np.clip(sums, MIN_THRESHOLD, max_threshold)
        return np.asarray(
            MAX_NODE_SCORE * (clipped - MIN_THRESHOLD) // (max_threshold - MIN_THRESHOLD),
            dtype=np.int64,
        )


def _images(pod: Pod) -> list[str]:
    spec = pod.spec
    containers = [container.image for container in (*spec.init_containers, *spec.containers)]
    return containers + [v.image.reference for v in spec.volumes if v.image is not None]


def normalized_image_name(name: str) -> str:
    """Returns the name, with the tag `latest` added if it has neither a tag nor a digest."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
