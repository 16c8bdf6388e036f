"""The end of what a cluster remembers of its writes."""

from __future__ import annotations

from berth.testing import Cluster, ServedCluster


def forget_history(served: ServedCluster) -> None:
    """Compacts the store, as etcd is every five minutes: watches of earlier versions are gone."""

    async def compact(cluster: Cluster) -> None:
        cluster.store.compact()

    served.call(compact)
