"""The images of nodes, and the times that pods wait for pulls.

A pull is a function of the time at which the pod began and of its annotations, so kubelets that
start again continue it. Failed pulls are repeated with a back-off that doubles, as by the kubelet.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec

from berth.actors.scheduling.kube.quantity import QuantityError, value

from ..objects.structs import Document

SIZE, FAILURES = "berth.dev/image-size", "berth.dev/pull-failures"
BYTES_A_SECOND = 100 << 20
BACKOFF_SECONDS, MOST_BACKOFF_SECONDS = 10.0, 300.0
ERROR_SECONDS = 2.0  # how long a failed pull is an error, before it is a back-off
MOST_REPORTED = 50


class Pull(msgspec.Struct, frozen=True):
    """The state of a pod's pulls: the reason why its containers wait, or "", and when the wait
    ends.
    """

    reason: str
    due: float


class Images:
    """The images on each node, with their sizes in bytes."""

    def __init__(self) -> None:
        self._sizes: dict[str, dict[str, int]] = defaultdict(dict)
        self._unreported: dict[str, set[str]] = defaultdict(set)

    def put(self, node: Document) -> None:
        """Stores the images in a node's status. Other images are removed, unless they are new on
        the node or did not fit into the status.
        """
        name = node["metadata"]["name"]
        images = (node.get("status") or {}).get("images") or ()
        listed = {
            text: image.get("sizeBytes") or 0
            for image in images
            for text in image.get("names") or ()
        }
        self._unreported[name] -= listed.keys()
        kept = {
            text: size
            for text, size in self._sizes[name].items()
            if len(images) >= MOST_REPORTED or text in self._unreported[name]
        }
        self._sizes[name] = kept | listed

    def forget(self, name: str) -> None:
        self._sizes.pop(name, None)
        self._unreported.pop(name, None)

    def missing(self, pod: Document) -> list[str]:
        """Returns the images of a pod that its node does not have."""
        sizes = self._sizes[pod["spec"]["nodeName"]]
        return [image for image in images_of(pod) if image not in sizes]

    def add(self, pod: Document) -> bool:
        """Adds the images of a pod to its node. Returns True if one is new there."""
        size, sizes = size_of(pod), self._sizes[pod["spec"]["nodeName"]]
        new = self.missing(pod) if size else []
        sizes.update(dict.fromkeys(new, size))
        self._unreported[pod["spec"]["nodeName"]] |= set(new)
        return bool(new)

    def status(self, name: str) -> list[Document]:
        """Returns the images for the status of a node, the largest first."""
        sizes = sorted(self._sizes[name].items(), key=lambda item: (-item[1], item[0]))
        return [{"names": [image], "sizeBytes": size} for image, size in sizes[:MOST_REPORTED]]

    def seconds(self, pod: Document) -> float:
        """Returns how long the pulls of a pod take together."""
        return len(self.missing(pod)) * size_of(pod) / BYTES_A_SECOND

    def pull(self, pod: Document, began: float, now: float) -> Pull:
        """Returns the state of the pulls of a pod that began at a time."""
        failures = _pull_failures(pod)
        seconds = self.seconds(pod)
        end, backoff, reason = began + seconds, BACKOFF_SECONDS, "ContainerCreating"
        while now >= end and failures > 0:
            failures -= 1
            if now < end + ERROR_SECONDS:
                return Pull("ErrImagePull", end + ERROR_SECONDS)
            end += backoff + seconds
            backoff = min(2 * backoff, MOST_BACKOFF_SECONDS)
            reason = "ImagePullBackOff"
        return Pull(reason, end) if now < end else Pull("", end)


def is_pulled(pod: Document) -> bool:
    """True if an annotation gives the pod's images a size, or makes their pulls fail."""
    annotations = pod["metadata"].get("annotations") or {}
    return SIZE in annotations or FAILURES in annotations


def images_of(pod: Document) -> list[str]:
    containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    return list(dict.fromkeys(container.get("image", "") for container in containers))


def size_of(pod: Document) -> int:
    """Returns the size of each image of a pod; 0 if an annotation does not give it."""
    text = (pod["metadata"].get("annotations") or {}).get(SIZE, "0")
    try:
        return max(value(text), 0)
    except QuantityError:
        return 0


def _pull_failures(pod: Document) -> float:
    """Returns the number of failures before a pull succeeds; infinity for "always"."""
    text = (pod["metadata"].get("annotations") or {}).get(FAILURES, "0")
    if text == "always":
        return float("inf")
    return int(text) if text.isdecimal() else 0
