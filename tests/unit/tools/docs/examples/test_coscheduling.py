"""Coscheduling: groups of pods get their nodes all together or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from berth.plugin import CycleState, PodInfo, Status
from berth.testing import Cluster, decide, node, pod, priority_class, run_virtually
from berth.tools.docs.examples.coscheduling import Coscheduling

DEFINITION = Path("tools/docs/examples/coscheduling/pod-groups.yaml").resolve()
LABEL = "scheduling.x-k8s.io/pod-group"
Document = dict[str, Any]
LAST_ROOM = pod("alone", cpu=8, node="n-0", terminationGracePeriodSeconds=0)
ALONE = {"controllers": False, "kubelets": False}  # nothing happens but what the story does
CALLS: list[tuple[str, str]] = []  # method and pod, of the story that is played


class Recorded(Coscheduling):
    """The plugin, with its calls in CALLS."""

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        CALLS.append(("reserve", info.key))
        return super().reserve(state, info, node)

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        CALLS.append(("unreserve", info.key))
        super().unreserve(state, info, node)


def calls(method: str) -> list[str]:
    """Returns the pods for which a method of the plugin was called."""
    return [pod for name, pod in CALLS if name == method]


def group(name: str, members: int, seconds: int | None = None) -> Document:
    spec = {"minMember": members} | ({"scheduleTimeoutSeconds": seconds} if seconds else {})
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": spec,
    }


def member(of: str, number: int, cpu: int = 1, **more: Any) -> Document:
    return pod(f"{of}-{number}", cpu=cpu, labels={LABEL: of}, **more)


def members(of: str, number: int, cpu: int = 1, **more: Any) -> list[Document]:
    return [member(of, each, cpu, **more) for each in range(number)]


def sized(*cpus: int) -> list[Document]:
    return [node(f"n-{number}", cpu=cpu) for number, cpu in enumerate(cpus)]


def played(story: Callable[[Cluster], Awaitable[None]], *objects: Any, **settings: Any) -> None:
    """Plays a story in a cluster with the plugin and the custom resource."""

    CALLS.clear()

    async def whole() -> None:
        async with Cluster(DEFINITION, *objects, plugins=[Recorded], **settings) as cluster:
            await story(cluster)

    run_virtually(whole)


def placed(cluster: Cluster) -> Counter[str]:
    """Returns how many members of each group have a node."""
    pods = (each for each in cluster.all("Pod") if each["spec"].get("nodeName"))
    groups = ((each["metadata"].get("labels") or {}).get(LABEL) for each in pods)
    return Counter(name for name in groups if name)


def test_a_group_that_fits_runs() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.settled()
        assert placed(cluster) == {"a": 3}

    played(story, sized(2, 1), group("a", 3), members("a", 3))


def test_a_group_that_does_not_fit_holds_no_room() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.add(pod("alone", cpu=2))
        await cluster.settled()
        assert placed(cluster) == {}
        assert cluster.pod("alone").placed_on()
        assert cluster.pod("a-0").pending_because('no room for the 3 pods of pod group "a"')

    played(story, sized(2), group("a", 3), members("a", 3))


def test_members_wait_for_their_last_one_and_for_their_group() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.settled()
        assert cluster.pod("a-0").pending_because('pod group "a" not found')
        await cluster.add(group("a", 3))
        await cluster.settled()
        assert cluster.pod("a-0").pending_because('pod group "a" has 2 pods of 3')
        await cluster.add(member("a", 2))
        await cluster.run_for(1)
        assert placed(cluster) == {"a": 3}

    played(story, sized(8), members("a", 2))


def test_members_that_miss_each_other_give_their_nodes_back_and_back_off() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.run_for(20)
        assert set(calls("reserve")) == {"default/a-0", "default/a-1"}
        assert placed(cluster) == {}
        await cluster.run_for("1h")
        assert len(calls("reserve")) < 2 * 3600 / 120 + 40
        await cluster.add(node("m", cpu=2, labels={"disk": "ssd"}))
        await cluster.run_for(1)
        assert placed(cluster) == {"a": 3}

    # By its requests the group has room, but no node is right for one of its members.
    odd = member("a", 2, nodeSelector={"disk": "ssd"})
    played(story, sized(8), group("a", 3), members("a", 2), odd)


def test_members_wait_on_if_few_are_missing() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.run_for(20)
        assert len(calls("reserve")) == 2
        await cluster.add(node("m", cpu=2, labels={"disk": "ssd"}))
        await cluster.run_for(1)
        assert placed(cluster) == {"a": 3}
        assert not calls("unreserve")

    odd = member("a", 2, nodeSelector={"disk": "ssd"})
    args = {"Coscheduling": {"podGroupRejectPercentage": 34}}
    played(story, sized(8), group("a", 3), members("a", 2), odd, args=args)


def test_room_that_comes_bit_by_bit_is_taken_within_a_second() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.settled()
        await cluster.add(group("a", 8), members("a", 8))
        await cluster.run_for("10m")
        for number in range(8):
            await cluster.delete("Pod", f"b-{number}")
            assert placed(cluster)["a"] == 0
            await cluster.run_for(1)
        assert placed(cluster) == {"a": 8}

    ends = members("b", 8, terminationGracePeriodSeconds=0)
    played(story, sized(8), group("b", 1), ends)


def test_a_member_that_fits_nowhere_is_replaced_by_one_that_the_group_has_left() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.run_for(1)
        assert placed(cluster) == {"a": 2}
        assert not calls("unreserve")

    odd = member("a", 1, nodeSelector={"disk": "ssd"})
    pods = [member("a", 0), odd, member("a", 2)]
    played(story, sized(8), pods, group("a", 2))


def test_a_head_that_fits_nowhere_leaves_its_part_to_another() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.run_for("1m")
        await cluster.delete("Pod", "alone")
        await cluster.run_for(1)
        assert placed(cluster) == {"a": 2}

    odd = member("a", 0, nodeSelector={"disk": "ssd"})
    pods = [odd, member("a", 1), member("a", 2)]
    played(story, sized(8), LAST_ROOM, group("a", 2), pods, **ALONE)


def test_room_for_members_of_different_sizes_is_taken_whoever_is_tried_first() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.run_for("1m")
        assert placed(cluster) == {}
        await cluster.delete("Pod", "alone")
        await cluster.run_for(1)
        assert placed(cluster) == {"a": 3}

    pods = [member("a", 0, cpu=6), member("a", 1), member("a", 2)]
    played(story, sized(8), LAST_ROOM, group("a", 3), pods, **ALONE)


def test_each_change_tries_another_member_of_a_group_that_sleeps() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.run_for("1m")
        tried = []
        for number in range(3):
            before = len(cluster.calls("Coscheduling", "pre_filter"))
            await cluster.delete("Pod", f"b-{number}")
            await cluster.run_for(1)
            later = cluster.calls("Coscheduling", "pre_filter")[before:]
            tried.append({call.pod for call in later if "/a-" in call.pod})
        assert [len(pods) for pods in tried] == [1, 1, 1]
        assert len(set.union(*tried)) == 3

    alone = [pod(f"b-{number}", cpu=1, terminationGracePeriodSeconds=0) for number in range(4)]
    played(story, sized(4), alone, group("a", 4), members("a", 4), **ALONE)


def test_a_member_that_is_deleted_while_it_waits_takes_the_others_along() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.run_for(1)
        await cluster.delete("Pod", "a-0")
        await cluster.run_for(1)
        assert sorted(calls("unreserve")) == ["default/a-0", "default/a-1"]

    other = member("a", 2, schedulerName="other")
    played(story, sized(8), group("a", 3), members("a", 2), other)


def test_members_are_neighbours_in_the_queue() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.settled()
        assert placed(cluster) == {"a": 4}
        assert not calls("unreserve")

    mixed = [
        pod(f"p-{number}-{of}", cpu=1, labels={LABEL: of}) for number in range(4) for of in "ab"
    ]
    played(story, sized(4), group("a", 4), group("b", 4), mixed, **ALONE)


def test_a_gated_member_does_not_keep_the_group_asleep() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.run_for(1)
        tries = len(calls("reserve"))
        await cluster.run_for("1m")
        assert len(calls("reserve")) > tries

    gated = member("a", 0, schedulingGates=[{"name": "example.com/later"}])
    odd = member("a", 3, nodeSelector={"disk": "ssd"})
    played(story, sized(8), group("a", 3), gated, member("a", 1), member("a", 2), odd)


def test_a_member_that_somebody_else_places_completes_the_group() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.run_for("1m")
        await cluster.add(member("a", 2, nodeName="n-0"))
        await cluster.run_for(1)
        assert placed(cluster) == {"a": 3}

    played(story, sized(8), group("a", 3), members("a", 2))


def test_a_pod_whose_label_is_corrected_is_tried_again() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.run_for("1m")
        await cluster.patch("Pod", "b-0", {"metadata": {"labels": {LABEL: "a"}}})
        await cluster.run_for(1)
        assert placed(cluster) == {"a": 1}

    played(story, sized(8), group("a", 1), member("b", 0))


def test_members_that_have_finished_do_not_count() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.settled()
        for number in range(3):
            await cluster.patch(
                "Pod", f"a-{number}", {"status": {"phase": "Succeeded"}}, subresource="status"
            )
        await cluster.add(member("a", 7))
        await cluster.settled()
        assert cluster.pod("a-7").pending_because('pod group "a" has 1 pods of 3')

    played(story, sized(8), group("a", 3), members("a", 3))


def test_a_group_that_is_deleted_meanwhile_gives_its_nodes_back() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.run_for(1)
        await cluster.delete("PodGroup", "a")
        await cluster.run_for("1m")
        assert len(calls("unreserve")) == 2
        await cluster.run_for(8)
        assert cluster.pod("a-0").pending_because('pod group "a" not found')
        await cluster.add(group("a", 2))
        await cluster.run_for(1)
        assert placed(cluster) == {"a": 2}

    other = member("a", 2, schedulerName="other")
    played(story, sized(8), group("a", 3), members("a", 2), other)


def test_the_time_of_the_group_ends_the_wait() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.run_for(6)
        assert set(calls("unreserve")) == {"default/a-0", "default/a-1"}
        assert placed(cluster) == {}

    # The third member is another scheduler's, and never comes.
    other = member("a", 2, schedulerName="other")
    played(story, sized(8), group("a", 3, seconds=5), members("a", 2), other)


def test_a_time_below_zero_is_none() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.run_for(50)
        assert not calls("unreserve")
        await cluster.run_for(20)
        assert len(calls("unreserve")) >= 2

    other = member("a", 2, schedulerName="other")
    played(story, sized(8), group("a", 3, seconds=-1), members("a", 2), other)


def test_a_replaced_member_of_a_running_group_needs_no_others() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.settled()
        await cluster.delete("Pod", "a-1")
        await cluster.add(member("a", 7))
        await cluster.run_for(1)
        assert cluster.pod("a-7").placed_on()

    played(story, sized(3), group("a", 3), members("a", 3))


def test_more_members_than_the_group_needs_come_as_they_fit() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.settled()
        assert placed(cluster) == {"a": 4}

    played(story, sized(4), group("a", 3), members("a", 5))


def test_a_group_preempts() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.settled()
        await cluster.add(group("a", 2), members("a", 2, priorityClassName="high"))
        await cluster.settled()
        assert placed(cluster) == {"a": 2}
        assert cluster.pod("low").evicted_by("PreemptionByScheduler")

    played(story, sized(2), priority_class("high", 1000), pod("low", cpu=1))


@pytest.mark.full("plays an hour of a hundred nodes")
def test_ninety_of_a_hundred_groups_fit_whole_and_the_others_wait_for_room() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.settled()
        counts = placed(cluster)
        assert len(counts) == 90
        assert set(counts.values()) == {8}
        tries = len(calls("reserve"))
        await cluster.run_for("1h")
        assert len(calls("reserve")) == tries
        gone = next(iter(counts))
        for each in range(8):
            await cluster.delete("Pod", f"{gone}-{each}")
        await cluster.run_for(1)
        assert gone not in placed(cluster)
        assert len(placed(cluster)) == 90
        assert set(placed(cluster).values()) == {8}

    names = [f"g{number}" for number in range(100)]
    mixed = [
        member(name, number, terminationGracePeriodSeconds=0)
        for number in range(8)
        for name in names
    ]
    nodes = sized(*[8] * 20, *[7] * 80)
    played(story, nodes, [group(name, 8) for name in names], mixed, **ALONE)


def test_arguments() -> None:
    with pytest.raises(Exception, match="podGroupBackoffSeconds"):
        decide(
            pod("a"),
            sized(1),
            plugins=[Coscheduling],
            args={"Coscheduling": {"podGroupBackoffSeconds": 0}},
        )
