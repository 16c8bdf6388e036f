"""The tests of new packages, one for each class of plugin_kinds.

`berth plugin new` writes the source of one of these functions beside the plugin, so each stands
alone: it uses `berth.testing`, and of this module nothing but the plugin.
"""

from __future__ import annotations

from collections.abc import Callable

from berth.testing import Cluster, decide, node, nodes, pod, run_virtually

from .plugin_kinds import (
    Announced,
    Approved,
    Asking,
    Counted,
    Even,
    Few,
    InService,
    Listed,
    Near,
    Paced,
    Placed,
    Quiet,
    Seats,
    SmallFirst,
)


def pre_enqueue() -> None:
    async def story() -> None:
        async with Cluster(pod("web"), nodes=1, plugins=[Approved]) as cluster:
            await cluster.settled()
            assert cluster.pod("web").pending_because("the pod is not approved")
            approved = {"metadata": {"annotations": {"example.com/approved": "true"}}}
            await cluster.patch("Pod", "web", approved)
            await cluster.settled()
            assert cluster.pod("web").placed_on()

    run_virtually(story)


def queue_sort() -> None:
    async def story() -> None:
        pods = [pod("large", cpu=4), pod("small", cpu=1)]
        async with Cluster(node("n", cpu=4), *pods, plugins=[SmallFirst]) as cluster:
            await cluster.settled()
            assert cluster.pod("small").placed_on("n")
            assert cluster.pod("large").pending()

    run_virtually(story)


def pre_filter() -> None:
    web = pod("web", annotations={"example.com/nodes": "node-2"})
    assert decide(web, nodes(3), plugins=[Listed]).node == "node-2"


def filters() -> None:
    others = [pod(name, node="node-1", labels={"app": "web"}) for name in "ab"]
    decision = decide(pod("c", labels={"app": "web"}), nodes(2), *others, plugins=[Few])
    assert decision.node == "node-2"
    assert decision.rejections == {"node-1": ["node(s) had two pods of the app"]}


def hints() -> None:
    async def story() -> None:
        serviced = node("n", labels={"example.com/maintenance": "disks"})
        async with Cluster(serviced, pod("web"), plugins=[InService]) as cluster:
            await cluster.settled()
            assert cluster.pod("web").pending_because("node(s) were in maintenance")
            ended = {"metadata": {"labels": {"example.com/maintenance": None}}}
            await cluster.patch("Node", "n", ended)
            await cluster.settled()
            assert cluster.pod("web").placed_on("n")

    run_virtually(story)


def post_filter() -> None:
    async def story() -> None:
        async with Cluster(pod("web", cpu=100), nodes=1, plugins=[Asking]) as cluster:
            await cluster.settled()
            assert cluster.get("Pod", "web")["metadata"]["annotations"]["example.com/asks"]

    run_virtually(story)


def pre_score() -> None:
    sitting = [pod(name, node="node-1") for name in "ab"]
    decision = decide(pod("web"), nodes(2, zones=2), *sitting, plugins=[Even])
    assert decision.scores_by_plugin["Even"] == {"node-1": 0, "node-2": 100}


def score() -> None:
    near = node("near", labels={"topology.kubernetes.io/zone": "zone-a"})
    far = node("far", labels={"topology.kubernetes.io/zone": "zone-b"})
    assert decide(pod("web"), [far, near], plugins=[Near]).node == "near"


def normalize_score() -> None:
    sitting = [pod("a", node="node-1"), pod("b", node="node-1"), pod("c", node="node-2")]
    decision = decide(pod("web"), nodes(3), *sitting, plugins=[Quiet])
    assert decision.scores_by_plugin["Quiet"] == {"node-1": 0, "node-2": 50, "node-3": 100}


def reserve() -> None:
    async def story() -> None:
        seated = [pod(name, labels={"example.com/seat": "yes"}) for name in "abc"]
        async with Cluster(*seated, nodes=1, plugins=[Seats]) as cluster:
            await cluster.settled()
            assert cluster.pod("c").pending_because("no seat is free")
            await cluster.delete("Pod", "a")
            await cluster.settled()
            assert cluster.pod("c").placed_on()

    run_virtually(story)


def permit() -> None:
    async def story() -> None:
        pods = [pod(name) for name in "abc"]
        async with Cluster(*pods, nodes=1, plugins=[Paced]) as cluster:
            await cluster.run_for(1.5)
            assert cluster.pod("a").placed_on()
            assert cluster.pod("c").pending()
            await cluster.settled()
            assert cluster.pod("c").placed_on()

    run_virtually(story)


def pre_bind() -> None:
    async def story() -> None:
        near = node("n", labels={"topology.kubernetes.io/zone": "zone-a"})
        async with Cluster(near, pod("web"), plugins=[Placed]) as cluster:
            await cluster.settled()
            web = cluster.get("Pod", "web")
            assert web["metadata"]["annotations"]["example.com/zone"] == "zone-a"

    run_virtually(story)


def bind() -> None:
    async def story() -> None:
        async with Cluster(pod("web"), nodes=1, plugins=[Announced]) as cluster:
            await cluster.settled()
            assert cluster.pod("web").placed_on("node-1")
            assert "web runs on node-1" in cluster.events("Announced")[0]

    run_virtually(story)


def post_bind() -> None:
    async def story() -> None:
        async with Cluster(pod("web"), nodes=1, plugins=[Counted]) as cluster:
            await cluster.settled()
            assert [call.pod for call in cluster.calls("Counted", "post_bind")] == ["default/web"]

    run_virtually(story)


TESTS: dict[str, Callable[[], None]] = {
    "pre-enqueue": pre_enqueue,
    "queue-sort": queue_sort,
    "pre-filter": pre_filter,
    "filter": filters,
    "hints": hints,
    "post-filter": post_filter,
    "pre-score": pre_score,
    "score": score,
    "normalize-score": normalize_score,
    "reserve": reserve,
    "permit": permit,
    "pre-bind": pre_bind,
    "bind": bind,
    "post-bind": post_bind,
}
