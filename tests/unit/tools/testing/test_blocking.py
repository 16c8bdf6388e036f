"""What a test does wrong with a cluster, and what it is told."""

from __future__ import annotations

import asyncio
import signal
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from berth.testing import (
    BlockingCluster,
    Cluster,
    ServedCluster,
    decide,
    nodes,
    pod,
    run_virtually,
)

TEXT: Any = "nodes.yaml"


@pytest.mark.parametrize("time", [-1, float("nan"), float("inf")])
async def test_a_time_that_does_not_pass(cluster: Cluster, time: float) -> None:
    with pytest.raises(ValueError, match="expected 0 seconds or more, got"):
        await cluster.run_for(time)


async def test_a_text_is_no_path(cluster: Cluster) -> None:
    with pytest.raises(TypeError, match=r"expected documents or a Path, got 'nodes.yaml': Path\("):
        await cluster.add(TEXT)
    with pytest.raises(TypeError, match=r"expected a mapping or a Path, got 'nodes\.yaml'"):
        Cluster(config=TEXT)
    with pytest.raises(TypeError, match="expected a mapping or a Path"):
        decide(pod("a"), nodes(1), config=TEXT)
    with pytest.raises(TypeError, match=r"expected None or a Path, got 'nodes.yaml': Path\("):
        Cluster(dump=TEXT)
    with pytest.raises(TypeError, match="expected None or a Path"):
        ServedCluster(scripts=TEXT)
    with pytest.raises(ValueError, match="expected 0 nodes or more, got -1"):
        Cluster(nodes=-1)


async def test_two_waits_at_once(cluster: Cluster) -> None:
    await cluster.add(nodes(1), pod("a"))
    await asyncio.gather(cluster.settled(), cluster.settled())
    assert cluster.pod("a").running()


def test_another_thread_asks_the_loop_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait(cluster: Cluster) -> None:
        await cluster.settled()

    with ServedCluster(nodes=1, scheduler=False) as served:
        cluster, looked = served.cluster, list[str]()

        def look(*_: object) -> list[Any]:
            looked.append(threading.current_thread().name)
            return []

        monkeypatch.setattr(cluster.history, "in_namespace", look)
        monkeypatch.setattr(cluster.store, "list", look)
        assert not cluster.pod("a")
        assert not cluster.pods(app="b").events
        assert not cluster.all("Node")
        assert not cluster.events()
        monkeypatch.setattr(cluster._calls, "of", look)
        assert not cluster.calls("Price", "filter")
        assert set(looked) == {"berth cluster"}
        with pytest.raises(RuntimeError, match=r"lives in another event loop.*apiserver\.call"):
            asyncio.run(wait(cluster))
    assert not cluster.all("Node")


def test_a_function_asks_what_a_coroutine_asks(cluster: BlockingCluster) -> None:
    of_loop = {"access", "history", "own_loop", "parts", "store"}
    public = {name for name in {*vars(Cluster), *vars(cluster.cluster)} if name[0] != "_"}
    assert not public - of_loop - {*dir(cluster)}
    cluster.add(nodes(2))
    cluster.run_for(10)
    assert [each["metadata"]["name"] for each in cluster.all("Node")] == ["node-1", "node-2"]
    assert cluster.now == 10
    assert not cluster.faults.met


def test_a_loop_in_a_loop_is_refused_before_anything_begins() -> None:
    async def story() -> None:
        blocking = BlockingCluster(nodes=1)
        with pytest.raises(
            RuntimeError, match=r"a BlockingCluster runs a loop of its own.*Jupyter"
        ):
            blocking.__enter__()
        with pytest.raises(RuntimeError, match="run_virtually runs a loop of its own"):
            run_virtually(story)

    asyncio.run(story())


def test_a_cluster_needs_asyncio() -> None:
    with pytest.raises(RuntimeError, match="asyncio: use a ServedCluster under trio"):
        Cluster().__aenter__().send(None)


def test_a_cluster_begins_once() -> None:
    async def story() -> None:
        cluster = Cluster()
        for _ in range(2):
            async with cluster:
                pass

    with pytest.raises(RuntimeError, match="a cluster begins once"):
        run_virtually(story)
    for kind in (BlockingCluster, ServedCluster):
        used = cast("Any", kind)()
        with used:
            pass
        with pytest.raises(RuntimeError, match="a cluster begins once"):
            used.__enter__()


def test_calls_outside_of_the_block_are_refused() -> None:
    blocking, served = BlockingCluster(), ServedCluster()
    with pytest.raises(RuntimeError, match="the cluster has not begun"):
        blocking.settled()
    with pytest.raises(RuntimeError, match="the cluster is not running"):
        served.call(lambda cluster: cluster.settled())
    with blocking, served:
        pass
    with pytest.raises(RuntimeError, match="the cluster has ended"):
        blocking.settled()
    with pytest.raises(RuntimeError, match="the cluster is not running"):
        served.report()


def test_a_call_in_the_thread_of_the_cluster_does_not_wait_for_itself() -> None:
    async def reported(_: Cluster) -> str:
        return served.report()

    with ServedCluster() as served, pytest.raises(RuntimeError, match="await its methods instead"):
        served.call(reported)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, LookupError])
def test_what_ends_a_test_comes_as_it_is(error: type[BaseException]) -> None:
    with pytest.raises(error), BlockingCluster(nodes=1):
        raise error
    with pytest.raises(error), ServedCluster(nodes=1):
        raise error


def test_an_interrupted_call_does_not_go_on_in_the_next() -> None:
    ends = []

    async def interrupted(cluster: Cluster) -> None:
        signal.raise_signal(signal.SIGINT)
        await cluster.run_for("1h")
        ends.append(cluster.now)

    with BlockingCluster(nodes=1) as cluster:
        with pytest.raises(KeyboardInterrupt):
            cluster.run(interrupted(cluster.cluster))
        cluster.run_for("2h")
    assert not ends


def test_a_cancelled_test_ends_its_cluster() -> None:
    async def story() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5), Cluster(nodes=1) as cluster:
                await cluster.run_for("1h")
        return cluster.now

    assert run_virtually(story) == 5


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError, match=r"no\.json"),
        BlockingCluster(dump=tmp_path / "no.json"),
    ):
        pass
