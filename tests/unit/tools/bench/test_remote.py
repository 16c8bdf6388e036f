"""A cluster behind an API server: what the benchmark writes there, and the pods that it counts."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from berth.actors.client.rest import Connection
from berth.actors.scheduling.kube.core import Node
from berth.tools.bench.objects import NODES, PODS
from berth.tools.bench.pod_counts import PodTracker
from berth.tools.bench.remote import remote_cluster
from berth.tools.cluster.apiserver.app import serve

POD = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def test_pods_are_counted_from_their_creation_to_their_end() -> None:
    tracker = PodTracker()

    async def until(condition: Callable[[list[str]], bool]) -> None:
        with anyio.fail_after(10):
            while not condition(tracker.names("default", {"app": "x"})):
                await anyio.sleep(0.001)

    async with serve(0) as url:
        async with remote_cluster(Connection(url), PodTracker()) as cluster:
            await cluster.create(PODS, "default", "before", POD)
        async with remote_cluster(Connection(url), tracker) as cluster:
            await until(lambda names: names == ["before"])
            await cluster.create(PODS, "default", "after", POD)
            await until(lambda names: sorted(names) == ["after", "before"])
            await cluster.delete(PODS, "default", "before", grace=0)
            await until(lambda names: names == ["after"])


async def test_what_belongs_to_no_namespace_is_cleaned_up() -> None:
    async with (
        serve(0) as url,
        remote_cluster(Connection(url), PodTracker()) as cluster,
    ):
        await cluster.create(NODES, "", "n", {})
        await cluster.create(PODS, "default", "p", POD)
        assert [node.metadata.name for node in await cluster.every(NODES, Node)] == ["n"]
        await cluster.clean_up()
        await cluster.clean_up()
        assert await cluster.every(NODES, Node) == []
