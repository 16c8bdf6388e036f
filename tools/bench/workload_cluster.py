"""The interface to the cluster of a workload: what its operations write and list.

Operations read pods from the PodTracker, which the cluster fills.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from berth.actors.scheduling.kube.meta import HasMetadata

from ..kubernetes.api.types.resources import Kind
from .templates import Document

T = TypeVar("T", bound=HasMetadata)


class ClusterError(Exception):
    """The cluster refused a write, or could not be reached."""


class ExistsError(ClusterError):
    """An object of this name already exists."""


class WorkloadCluster(Protocol):
    """The cluster of a workload. `parallel` is the number of writes that may run at once.

    Documents are shared, so implementations must not change them.
    """

    parallel: int

    async def create(self, kind: Kind, namespace: str, name: str, document: Document) -> None: ...

    async def update(
        self, kind: Kind, namespace: str, name: str, document: Document, subresources: Sequence[str]
    ) -> None:
        """Replaces the object and, if the document has one, its status."""
        ...

    async def delete(self, kind: Kind, namespace: str, name: str, grace: int | None = None) -> None:
        """Deletes an object. An object that no longer exists is not an error."""
        ...

    async def set_status(self, kind: Kind, namespace: str, name: str, status: Document) -> None: ...

    async def every(self, kind: Kind, type_: type[T]) -> list[T]:
        """Returns all objects of a kind, read as this type."""
        ...

    async def delivered(self) -> None:
        """Waits until the scheduler has received every write, if the cluster can tell."""
        ...
