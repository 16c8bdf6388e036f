"""One cluster over HTTP for the tests of a module, each of which has a namespace of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from berth.testing import Cluster, ServedCluster
from tests.kit.documents import Document

_NUMBERS = count()


@pytest.fixture(scope="module")
def served() -> Iterator[ServedCluster]:
    with ServedCluster(nodes=2) as served:
        yield served


@pytest.fixture
def namespace(served: ServedCluster) -> str:
    """Returns the name of a new namespace."""
    name = f"program-{next(_NUMBERS)}"
    document: Document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}

    async def add(cluster: Cluster) -> None:
        await cluster.add(document)

    served.call(add)
    return name
