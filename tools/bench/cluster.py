"""What a workload is played on: the writes that its operations make. Reading is by the PodTracker
that it fills.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from berth.tools.apiserver.resources import Kind
from berth.tools.bench.templates import Document


class ClusterError(Exception):
    """The cluster refused a write, or could not be reached."""


class ExistsError(ClusterError):
    """There is one of this name already."""


class Cluster(Protocol):
    """`parallel` is how many writes may be under way at once. Documents are shared, hence not to be
    changed.
    """

    parallel: int

    async def create(self, kind: Kind, namespace: str, name: str, document: Document) -> None: ...

    async def update(
        self, kind: Kind, namespace: str, name: str, document: Document, subresources: Sequence[str]
    ) -> None:
        """Replace what the document says, and its status if it has one."""
        ...

    async def delete(self, kind: Kind, namespace: str, name: str, grace: int | None = None) -> None:
        """What is gone already is no error."""
        ...
