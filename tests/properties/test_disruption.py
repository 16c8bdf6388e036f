"""Evictions and the disruption controller together never disrupt more pods than a budget allows.

The controller sees pods and budgets late, each by a watch of its own, and restarts. Pods go, are
replaced and become ready while clients evict what they like.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from berth.tools.cluster.controllers import disruption_controllers
from berth.tools.kubernetes.api.requests.media_types import MERGE
from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND, Kind
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.kubernetes.disruption import budgets
from berth.tools.kubernetes.object_index import ObjectIndex
from berth.tools.kubernetes.objects.structs import Pod, PodDisruptionBudget, ReplicaSet, T, read
from berth.tools.kubernetes.objects.writes import Create, Patch
from tests.kit.stores import fresh_store

PODS, SETS = BY_KIND["v1", "Pod"], BY_KIND["apps/v1", "ReplicaSet"]
BUDGETS = BY_KIND["policy/v1", "PodDisruptionBudget"]
NS, LABELS, REPLICAS = "default", {"app": "x"}, 6
SPEC = {"containers": [{"name": "c", "image": "i"}]}
# The numbers of a budget, and how many of the replicas must stay healthy.
BUDGETED: dict[str, tuple[dict[str, int | str], int]] = {
    "at least 4": ({"minAvailable": 4}, 4),
    "at least half": ({"minAvailable": "50%"}, 3),
    "at most 1 away": ({"maxUnavailable": 1}, 5),
    "at most a third away": ({"maxUnavailable": "33%"}, 4),
}


class Controller:
    """A disruption controller that reads by watches and writes to the store."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._cluster = ObjectIndex()
        self._seen = api.store.revision, api.store.revision
        for kind, type_ in ((SETS, ReplicaSet), (PODS, Pod), (BUDGETS, PodDisruptionBudget)):
            for stored in api.store.list(kind):
                self._cluster.put(read(stored.document, type_))

    def see_pods(self, most: int) -> None:
        self._seen = self._see(PODS, Pod, self._seen[0], most), self._seen[1]

    def see_budgets(self, most: int) -> None:
        self._seen = self._seen[0], self._see(BUDGETS, PodDisruptionBudget, self._seen[1], most)

    def decide(self, now: datetime) -> None:
        for budget in self._cluster.all(PodDisruptionBudget):
            pods = disruption_controllers.candidates(self._cluster, budget)
            for write in budgets.reconcile(budget, pods, self._find, now):
                assert not isinstance(write, Create) or write.document["type"] == "Normal"
                if isinstance(write, Patch):
                    self._write(write)

    def _write(self, write: Patch) -> None:
        place = (BUDGETS, write.namespace, write.name)
        code = answer(lambda: self._api.patch(*place, write.body, MERGE, write.subresource))
        assert code in (200, 409)
        event(f"a write of the controller is answered with {code}")

    def _see(self, kind: Kind, type_: type[T], seen: int, most: int) -> int:
        for news in self._api.store.since(kind, seen)[:most]:
            seen, obj = news.after.revision, read(news.after.document, type_)
            if news.type == "DELETED":
                self._cluster.remove(obj)
            else:
                self._cluster.put(obj)
        return seen

    def _find(self, kind: str, namespace: str, name: str) -> ReplicaSet | None:
        assert kind == "ReplicaSet"
        return self._cluster.find(ReplicaSet, namespace, name)


class World:
    """A ReplicaSet with its pods, a budget over them, clients that evict, and the controller."""

    def __init__(self, numbers: dict[str, Any], policy: str) -> None:
        self.api = Api(fresh_store())
        self.api.seed()
        selector = {"matchLabels": LABELS}
        template = {"metadata": {"labels": LABELS}, "spec": SPEC}
        owner = {"replicas": REPLICAS, "selector": selector, "template": template}
        self._set = self.api.create(SETS, NS, {"metadata": {"name": "r"}, "spec": owner}).document
        self._made = 0
        for _ in range(REPLICAS):
            self.create_pod()
        spec = {**numbers, "selector": selector, "unhealthyPodEvictionPolicy": policy}
        self.api.create(BUDGETS, NS, {"metadata": {"name": "b"}, "spec": spec})
        self.controller = Controller(self.api)

    def pods(self) -> list[dict[str, Any]]:
        return [stored.document for stored in self.api.store.list(PODS, NS)]

    def healthy(self) -> int:
        return sum(
            "deletionTimestamp" not in pod["metadata"] and is_ready(pod) for pod in self.pods()
        )

    def create_pod(self) -> None:
        self._made += 1
        uid = self._set["metadata"]["uid"]
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": uid}
        references = [{**owner, "controller": True}]
        name = f"p{self._made:02}"
        metadata = {"name": name, "labels": LABELS, "ownerReferences": references}
        self.api.create(PODS, NS, {"metadata": metadata, "spec": SPEC})
        self.api.bind(NS, name, {"target": {"kind": "Node", "name": "n1"}})
        self.api.patch(PODS, NS, name, {"status": {"phase": "Running"}}, MERGE, "status")

    def become_ready(self, number: int) -> None:
        name = self._name(number)
        if name:
            status = {"conditions": [{"type": "Ready", "status": "True"}]}
            self.api.patch(PODS, NS, name, {"status": status}, MERGE, "status")

    def evict(self, number: int) -> None:
        name = self._name(number)
        code = answer(lambda: self.api.evict(NS, name, {"metadata": {"name": name}}))
        assert code in (200, 429)
        event(f"an eviction is answered with {code}")

    def end(self, number: int) -> None:
        """Ends a pod whose time has come, and creates another."""
        doomed = [pod for pod in self.pods() if "deletionTimestamp" in pod["metadata"]]
        if doomed:
            name = doomed[number % len(doomed)]["metadata"]["name"]
            self.api.delete(PODS, NS, name, DeleteOptions(grace_period_seconds=0))
            self.create_pod()

    def restart(self, _: int) -> None:
        self.controller = Controller(self.api)

    def _name(self, number: int) -> str:
        pods = self.pods()
        name: str = pods[number % len(pods)]["metadata"]["name"]
        return name


def answer(request: Callable[[], object]) -> int:
    """Returns the code of the answer; 200 for any success."""
    try:
        request()
    except RefusedError as refused:
        return refused.code
    return 200


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


STEPS = (
    *("evict", "evict", "see pods", "see budgets", "see budgets", "decide", "decide"),
    *("end", "ready", "ready", "restart"),
)


@given(
    st.sampled_from(sorted(BUDGETED)),
    st.sampled_from(("IfHealthyBudget", "AlwaysAllow")),
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5)), min_size=10, max_size=60),
)
def test_evictions_leave_as_many_healthy_pods_as_the_budget_demands(
    name: str, policy: str, steps: list[tuple[str, int]]
) -> None:
    numbers, desired = BUDGETED[name]
    now = datetime.now(UTC)
    world = World(numbers, policy)
    for number in range(REPLICAS):
        world.become_ready(number)
    world.restart(0)
    world.controller.decide(now)
    for step, number in steps:
        healthy = world.healthy()
        match step:
            case "evict":
                for pod in range(number, number + REPLICAS):
                    world.evict(pod)
            case "see pods":
                world.controller.see_pods(2 * number + 1)
            case "see budgets":
                world.controller.see_budgets(2 * number + 1)
            case "decide":
                world.controller.decide(now)
            case "end":
                world.end(number)
            case "ready":
                world.become_ready(number)
            case _:
                world.restart(number)
        if world.healthy() < healthy:
            assert world.healthy() >= desired, f"{step} disrupted too many"
    settle(world, now)
    status = world.api.store.get(BUDGETS, NS, "b")["status"]
    assert status["currentHealthy"] == world.healthy()
    assert not status.get("disruptedPods")


def settle(world: World, now: datetime) -> None:
    """Delivers all news until the controller has nothing more to write."""
    for _ in range(4):
        world.controller.see_pods(1000)
        world.controller.see_budgets(1000)
        world.controller.decide(now)
