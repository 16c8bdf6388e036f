"""Odd objects and unreadable objects neither stop nor mislead the scheduler."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from berth.actors.scheduling.kube.kinds import NODES, PODS
from tests.kit.daemon import daemon
from tests.kit.logs import capture_logs
from tests.kit.serving import open_to_all, url_of

NULLS: dict[str, Any] = {"status.images": [{"names": None, "sizeBytes": 5}], "spec.taints": None}
BROKEN: dict[str, Any] = {"status.allocatable.cpu": "plenty"}


async def test_null_is_absent_in_a_list_in_updates_and_at_the_end() -> None:
    async with daemon() as running:
        running.api.sever(forget=True)
        running.put_node("n", hostile=NULLS)
        await running.advance(2)
        running.put_pod("a")
        await running.advance(2)
        assert running.node_of("a") == "n"
        running.put_node("n", hostile={**NULLS, "spec.unschedulable": True})
        running.put_pod("b")
        await running.advance(2)
        assert "1 node(s) were unschedulable" in running.message_of("b")
        running.api.delete(NODES.path, "n", NULLS)
        running.put_pod("c")
        await running.advance(2)
        assert running.message_of("c") == "no nodes available to schedule pods"


async def test_an_unreadable_node_takes_no_new_pods_until_it_can_be_read_again() -> None:
    async with daemon() as running:
        running.put_node("n")
        running.put_pod("a")
        await running.advance(2)
        assert running.node_of("a") == "n"
        running.put_node("n", hostile=BROKEN)
        tolerant = {"tolerations": [{"operator": "Exists"}], "priority": 1000}
        running.put_pod("b", "3900m", tolerant)
        await running.advance(2)
        assert running.message_of("b").startswith(
            "0/1 nodes are available: 1 node(s) could not be read."
        )
        assert running.node_of("a") == "n"  # the pod that it would have preempted
        running.api.sever(forget=True)
        await running.advance(60)
        assert not running.node_of("b")
        running.put_node("n")
        await running.advance(15)
        assert running.node_of("b") == "n"


async def test_an_unreadable_node_is_removed_by_any_deletion_event() -> None:
    async with daemon() as running:
        running.put_node("n")
        await running.advance(1)
        running.put_node("n", hostile=BROKEN)
        running.api.delete(NODES.path, "n", {"metadata.labels": 7, "status": "gone"})
        running.put_pod("a")
        await running.advance(2)
        assert running.message_of("a") == "no nodes available to schedule pods"
        running.put_node("m")
        await running.advance(15)
        assert running.node_of("a") == "m"
        running.api.delete(NODES.path, "m", {"metadata.name": None})
        running.put_pod("b")
        await running.advance(2)
        assert running.message_of("b") == "no nodes available to schedule pods"


async def test_an_unreadable_pod_on_a_node_keeps_its_room() -> None:
    async with daemon() as running:
        running.put_node("n", "2")
        running.put_pod("big", "1500m")
        await running.advance(2)
        assert running.node_of("big") == "n"
        running.put_pod("big", "1500m", hostile={"spec.priority": 1 << 40})
        running.put_pod("a", "1")
        await running.advance(2)
        assert "Insufficient cpu" in running.message_of("a")
        running.api.sever(forget=True)
        await running.advance(30)
        assert not running.node_of("a")
        running.api.delete(PODS.path, "default/big", {"status": []})
        await running.advance(15)
        assert running.node_of("a") == "n"


async def test_a_pod_on_a_node_that_was_never_read_takes_the_room_of_its_readable_requests() -> (
    None
):
    async with daemon() as running:
        running.put_node("n", "2")
        extended = {
            "spec.nodeName": "n",
            "spec.containers.0.resources.requests.example/gpu": "some",
        }
        running.put_pod("there", "1500m", hostile=extended)
        running.put_pod("a", "1")
        await running.advance(2)
        assert "Insufficient cpu" in running.message_of("a")
        running.put_pod("b", "400m")
        await running.advance(2)
        assert running.node_of("b") == "n"


async def test_an_unreadable_pending_pod_is_not_scheduled_until_it_can_be_read_again() -> None:
    async with daemon() as running:
        running.put_pod("never-read", hostile={"spec.tolerations": "all"})
        running.put_pod("read-once")
        await running.advance(2)
        running.put_pod("read-once", hostile={"spec.nodeSelector": "n"})
        running.put_node("n")
        await running.advance(400)
        assert (running.node_of("never-read"), running.node_of("read-once")) == ("", "")
        running.put_pod("never-read")
        running.put_pod("read-once", spec={"nodeSelector": {"kubernetes.io/hostname": "other"}})
        await running.advance(15)
        assert running.node_of("never-read") == "n"
        assert "didn't match Pod's node affinity/selector" in running.message_of("read-once")


@pytest.mark.parametrize(
    "hostile",
    [
        {"metadata": None},
        {"metadata.uid": None},
        {"metadata.uid": ["u"]},
        {"metadata.name": None},
        {"metadata.name": 7},
        {"metadata.labels": {"a": 1}},
        {"spec.containers.0.resources.requests.cpu": "lots"},
        {"spec.containers.0.resources.requests.cpu": "9" * 5000},
        {"spec.containers.0.resources.requests.cpu": 1 << 80},
        {"spec.overhead": {"memory": ""}},
        {"spec.priority": 1 << 31},
        {"spec.volumes": [{"name": "v", "rbd": {"pool": 1 << 80}}]},
        {"status.startTime": "yesterday"},
        {"status.conditions": {}},
    ],
)
async def test_one_odd_pod_does_not_stop_the_others(hostile: dict[str, Any]) -> None:
    async with daemon() as running:
        running.put_node("n")
        running.put_pod("odd", hostile=hostile)
        running.put_pod("a")
        await running.advance(40)
        running.put_pod("odd", spec={"nodeName": "n"}, hostile=hostile)
        running.put_pod("b")
        await running.advance(40)
        running.api.sever(forget=True)
        running.put_pod("c")
        await running.advance(40)
        assert [running.node_of(name) for name in "abc"] == ["n", "n", "n"]


async def test_a_pod_that_becomes_unreadable_during_its_attempt_does_not_block_the_recorder() -> (
    None
):
    async with daemon() as running:
        running.put_node("n")
        await running.advance(1)
        running.put_pod("odd", "64")
        running.put_pod("odd", "64", hostile={"spec.priority": "high"})
        for number in range(20):
            running.put_pod(f"p{number}", "64")
        await running.advance(10)
        assert all("Insufficient cpu" in running.message_of(f"p{number}") for number in range(20))
        before = len(running.api.requests)
        await running.advance(10)
        assert len(running.api.requests) - before < 5


async def test_an_unreadable_object_is_named_in_the_log_the_metric_and_the_debug_page() -> None:
    options = open_to_all()
    url = url_of(options)
    async with daemon(options=options) as running, aiohttp.ClientSession() as session:

        async def get(path: str) -> str:
            async with session.get(f"{url}/{path}", ssl=False) as response:
                return await response.text()

        with capture_logs() as logs:
            running.put_node("n")
            running.put_node("n", hostile=BROKEN)
            running.put_pod("p", hostile={"spec.priority": "first"})
            await running.advance(2)
            for _ in range(3):
                running.put_node("n", hostile=BROKEN)
                running.api.sever(forget=True)
                await running.advance(40)
            unreadable = [line for line in logs if line["event"] == "object cannot be read"]
            named = [(line["kind"], line["key"], line["uid"]) for line in unreadable]
            assert sorted(named) == [("Node", "n", "node-n"), ("Pod", "default/p", "pod-p")]
            metrics = await get("metrics")
            assert 'berth_unreadable_objects{kind="Node"} 1' in metrics
            assert 'berth_unreadable_objects{kind="Pod"} 1' in metrics
            assert 'berth_unreadable_objects{kind="Service"} 0' in metrics
            page = await get("debug/unreadable")
            assert (
                '{"kind":"Node","key":"n","uid":'
                '"node-n","problem":"status.allocatable[cpu]: expected a quanti'
            ) in page
            running.put_node("n")
            running.api.delete(PODS.path, "default/p")
            await running.advance(2)
            assert await get("debug/unreadable") == '{"objects":[]}'
            ended = [
                line["key"]
                for line in logs
                if line["event"] == "object can be read again, or is gone"
            ]
            assert sorted(ended) == ["default/p", "n"]
            running.put_node("n", hostile=BROKEN)
            await running.advance(2)
            assert len([line for line in logs if line["event"] == "object cannot be read"]) == 3


async def test_the_comparison_leaves_unreadable_objects_alone() -> None:
    with capture_logs() as logs:
        async with daemon() as running:
            running.put_node("n")
            running.put_pod("on")
            await running.advance(2)
            running.put_node("n", hostile=BROKEN)
            running.put_pod("on", hostile={"spec.priority": "high"})
            running.put_pod("pending")
            running.put_pod("pending", hostile={"spec.priority": "high"})
            running.put_pod("there", hostile={"spec.nodeName": "n", "spec.priority": "high"})
            await running.advance(200)
            assert not running.node_of("pending")
    assert not [line for line in logs if line["event"] == "healed"]
