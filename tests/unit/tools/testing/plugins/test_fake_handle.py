"""A plugin alone in a test: what it is given, what it did, and the calls of one in a cluster."""

from __future__ import annotations

import asyncio

import msgspec
import numpy as np
import pytest

from berth.plugin import (
    PAUSE,
    SUCCESS,
    Bools,
    Code,
    CycleState,
    FailedAttempt,
    FilterPlugin,
    Node,
    NodeView,
    NotFound,
    ObjectMeta,
    PermitPlugin,
    PluginScope,
    Pod,
    PodInfo,
    PostBindPlugin,
    PostFiltered,
    PostFilterPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    ReservePlugin,
    Snapshot,
    StateKey,
    Status,
    Steps,
    Verdicts,
    WatchedKind,
    error,
    unschedulable,
)
from berth.testing import (
    Cluster,
    FakeHandle,
    Livelock,
    RecordedEvent,
    RecordedRequest,
    budget,
    decide,
    node,
    nodes,
    pod,
    pod_info,
    run_virtually,
)
from tests.kit.logs import capture_logs


class Pair(PermitPlugin, PreBindPlugin):
    """Lets pods go two by two, and marks each of them."""

    name = "Pair"

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        waiting = self.handle.waiting.each()
        if not waiting:
            return Status(Code.WAIT), 60.0
        self.handle.allow(waiting[0].info)
        self.handle.event(info, "PairMade", f"with {waiting[0].info.key}")
        self.handle.log.info("pair made", pod=info.key)
        self.handle.activate("default/next")
        return SUCCESS, 0.0

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        changes = {"metadata": {"annotations": {"example.com/pair": node}}}
        answer = await self.handle.api.patch(Pod, info.pod.metadata.name, changes, "default")
        return answer if isinstance(answer, Status) else SUCCESS


async def test_what_a_plugin_does_is_recorded() -> None:
    handle = FakeHandle(pod("b", cpu=1), node("n"), plugin=Pair)
    plugin, first, second = Pair({}, handle), pod_info(pod("a")), pod_info(pod("b"))
    assert plugin.permit(CycleState(), first, "n")[0].code is Code.WAIT
    handle.waits(first, "n")
    assert plugin.permit(CycleState(), second, "n") == (SUCCESS, 0.0)
    assert handle.allowed == ["default/a"]
    assert handle.events == [RecordedEvent("default/b", "PairMade", "with default/a")]
    assert handle.activated == ["default/next"]
    assert [(line["event"], line["plugin"]) for line in handle.lines] == [("pair made", "Pair")]
    assert await plugin.pre_bind(CycleState(), second, "n") == SUCCESS
    changed = handle.objects.get(Pod, "b", "default")
    assert changed is not None
    assert changed.metadata.annotations == {"example.com/pair": "n"}
    (request,) = handle.requests
    assert (request.verb, request.kind, request.name) == ("patch", "Pod", "b")


def test_several_plugins_hold_a_pod() -> None:
    handle, info = FakeHandle(plugin=Pair), pod_info(pod("a"))
    handle.waits(info, "n")
    handle.waits(info, "n", plugin="Quota")
    waiting = handle.waiting.get(info.uid)
    assert waiting is not None
    assert sorted(waiting.plugins) == ["Pair", "Quota"]
    assert not handle.allow(info)
    assert handle.waiting.allow(info.uid, "Quota")


async def test_requests_are_answered_as_the_test_says() -> None:
    handle = FakeHandle(plugin=Pair)
    plugin = Pair({}, handle)
    missing = await plugin.pre_bind(CycleState(), pod_info(pod("a")), "n")
    assert missing.message == '"a" not found'
    handle.answers("patch", "Pod", error("try later"))
    assert (await plugin.pre_bind(CycleState(), pod_info(pod("a")), "n")).message == "try later"
    handle.answers("list", "Node", lambda request: (request,))
    expected = RecordedRequest("list", "Node", body={"a": "b"})
    answer: object = await handle.api.list(Node, labels={"a": "b"})
    assert answer == (expected,)
    assert await handle.api.bind("default", "a", "", "n") == SUCCESS


async def test_requests_are_refused_as_by_an_api_server() -> None:
    there = node("n")
    there["metadata"] |= {"uid": "one", "resourceVersion": "7"}
    handle = FakeHandle(there, pod("p"))
    api = handle.api
    assert isinstance(await api.get(Node, "m"), NotFound)
    assert [request.name for request in handle.requests] == ["m"]
    assert isinstance(await api.create(Node, {"metadata": {"name": "n"}}), Status)
    stale = {"metadata": {"resourceVersion": "6", "labels": {"a": "b"}}}
    assert isinstance(await api.patch(Node, "n", stale), Status)
    assert not (await api.delete(Node, "n", uid="two")).ok
    assert not (await api.evict("p", "default", uid="two")).ok
    assert handle.objects.get(Pod, "p", "default")
    kept = handle.objects.get(Node, "n")
    assert kept is not None
    assert "a" not in kept.metadata.labels
    stale["metadata"]["resourceVersion"] = "7"
    assert isinstance(await api.patch(Node, "n", stale), Node)
    assert (await api.delete(Node, "n", uid="one")).ok
    made = [await api.create(Node, {"metadata": {"generateName": "x-"}}) for _ in "ab"]
    names = {each.metadata.name for each in made if isinstance(each, Node)}
    assert len(names) == 2
    assert all(name.startswith("x-") for name in names)


def test_time_is_moved_by_hand() -> None:
    handle = FakeHandle()
    handle.seconds += 90
    assert (handle.now(), f"{handle.wall():%H:%M:%S}") == (90.0, "00:01:30")


class Never(ReservePlugin):
    """Rejects its pods, and has them tried again at once."""

    name = "Never"

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        self.handle.activate(info)
        return Status(Code.UNSCHEDULABLE, ("not yet",))

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        self.handle.activate(info)


def test_the_calls_of_a_plugin_in_a_cluster() -> None:
    async def story() -> None:
        async with Cluster(pod("a"), nodes=1, plugins=[Pair]) as cluster:
            await cluster.run_for(1)
            await cluster.add(pod("b"))
            await cluster.run_for(1)
            calls = cluster.calls("Pair", "permit")
            assert [(call.pod, call.node) for call in calls] == [
                ("default/a", "node-1"),
                ("default/b", "node-1"),
            ]
            assert calls[1].answer == (SUCCESS, 0.0)
            assert len(cluster.calls("Pair", "pre_bind")) == 2
            with pytest.raises(LookupError, match="expected one of bind, filter"):
                cluster.calls("Pair", "prebind")

    run_virtually(story)


class Quick(FilterPlugin, PostFilterPlugin):
    name = "Quick"

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        return Verdicts.rejecting(np.ones(nodes.size, dtype=bool), Code.UNSCHEDULABLE, "never")

    def passing(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Bools | None:
        return np.zeros(nodes.size, dtype=bool)

    def post_filter(self, attempt: FailedAttempt) -> PostFiltered:
        return PostFiltered(error("no more"))


def test_the_calls_of_a_plugin_in_the_vector_form_and_of_post_filter() -> None:
    async def story() -> None:
        async with Cluster(pod("a"), nodes=1, plugins=[Quick]) as cluster:
            await cluster.run_for(1)
            for method in ("passing", "filter", "post_filter"):
                assert {call.pod for call in cluster.calls("Quick", method)} == {"default/a"}

    run_virtually(story)


def test_a_livelock_is_named() -> None:
    async def story() -> None:
        async with Cluster(pod("h-0"), nodes=1, plugins=[Never]) as cluster:
            with pytest.raises(Livelock, match=r"h-0 was tried [0-9,]+ times by Never"):
                await cluster.settled("6h", still="1h")

    run_virtually(story)


class Context(msgspec.Struct, frozen=True, rename="camel"):
    run_as_user: int = 0


class SecureSpec(msgspec.Struct, frozen=True, rename="camel"):
    security_context: Context = Context()


class SecurePod(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: SecureSpec = SecureSpec()


class Pool(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


class OtherFields(PreFilterPlugin):
    """Reads fields of pods that berth does not read, and pools."""

    name = "OtherFields"
    lookups = (
        WatchedKind("v1", "Pod", "/api/v1/pods", SecurePod),
        WatchedKind("example.com/v1", "Pool", "/apis/example.com/v1/pools", Pool),
    )

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Status:
        name, namespace = info.pod.metadata.name, info.pod.metadata.namespace
        both = self.handle.objects, snapshot.objects
        pods = [objects.get(SecurePod, name, namespace) for objects in both]
        users = [pod.spec.security_context.run_as_user for pod in pods if pod is not None]
        return SUCCESS if users == [7, 7] else unschedulable(f"users {users}")


def test_a_handle_has_the_objects_of_kinds_that_its_plugin_declares() -> None:
    pool = {"apiVersion": "example.com/v1", "kind": "Pool", "metadata": {"name": "a"}}
    secured = pod("p", securityContext={"runAsUser": 7})
    objects = FakeHandle(pool, secured, plugin=OtherFields).objects
    assert [each.metadata.name for each in objects.every(Pool)] == ["a"]
    assert [each.spec.security_context.run_as_user for each in objects.every(SecurePod)] == [7]
    assert [each.metadata.name for each in objects.every(Pod)] == ["p"]
    with pytest.raises(ValueError, match="of a kind in the lookups of the class"):
        FakeHandle(pool, plugin="OtherFields")


@pytest.mark.parametrize("head", [{}, {"apiVersion": "v1", "kind": "Pod"}])
def test_a_decision_shows_its_pod_in_the_types_that_plugins_declare(head: dict[str, str]) -> None:
    secured = {**head, **pod("p", securityContext={"runAsUser": 7})}
    if not head:
        secured = {name: secured[name] for name in ("metadata", "spec")}
    decision = decide(secured, nodes(1), plugins=[OtherFields])
    assert decision.node == "node-1", decision.message


class Searching(PostFilterPlugin):
    name = "Searching"

    def post_filter(self, attempt: FailedAttempt) -> Steps[PostFiltered]:
        yield PAUSE
        if attempt.info.pod.metadata.name == "odd":
            raise ValueError("odd")
        return PostFiltered(unschedulable("nothing was found"))


def test_the_answer_of_a_call_in_steps_is_recorded_at_its_end() -> None:
    async def story() -> None:
        async with Cluster(nodes=1, plugins=[Searching]) as cluster:
            await cluster.add(pod("a", cpu=99), pod("odd", cpu=99))
            await cluster.run_for(0.5)
            calls = {call.pod: call.answer for call in cluster.calls("Searching", "post_filter")}
            assert calls["default/a"] == PostFiltered(unschedulable("nothing was found"))
            assert str(calls["default/odd"]) == "odd"

    run_virtually(story)


class Emptying(PostBindPlugin):
    """Evicts the pods of a node with an annotation."""

    name = "Emptying"

    async def start(self, scope: PluginScope) -> None:
        scope.every(5, self.empty, leading=True)

    async def empty(self) -> None:
        for each in self.handle.objects.every(Pod):
            on = self.handle.objects.get(Node, each.spec.node_name)
            if on is not None and "example.com/empty" in on.metadata.annotations:
                about = each.metadata
                status = await self.handle.api.evict(about.name, about.namespace, about.uid)
                if not status.ok:
                    self.handle.log.info("not evicted", why=status.message)

    def post_bind(self, state: CycleState, info: PodInfo, node: str) -> None: ...


def test_a_task_evicts_pods_as_far_as_budgets_allow() -> None:
    async def story() -> None:
        mark = {"metadata": {"annotations": {"example.com/empty": "yes"}}}
        async with Cluster(nodes=1, plugins=[Emptying]) as cluster:
            await cluster.add(pod("kept", labels={"app": "web"}), pod("other"))
            await cluster.add(budget("web", app="web", min_available=1))
            await cluster.settled()
            await cluster.patch("Node", "node-1", mark)
            await cluster.run_for(60)
            assert cluster.pod("kept").running()
            assert [each["metadata"]["name"] for each in cluster.all("Pod")] == ["kept"]
            await cluster.delete("PodDisruptionBudget", "web")
            await cluster.run_for(60)
            assert not cluster.all("Pod")

    with capture_logs() as lines:
        run_virtually(story)
    why = {line["why"] for line in lines if line["event"] == "not evicted"}
    assert why
    assert all("disruption budget" in text for text in why)


class Slow(PostBindPlugin):
    """Looks at a pod a second."""

    name = "Slow"

    async def start(self, scope: PluginScope) -> None:
        self.scope = scope
        scope.every(1, self.look)

    async def look(self) -> None:
        names = list[str]()
        for each in self.handle.objects.every(Pod):
            names.append(each.metadata.name)
            await self.scope.sleep(1)
        self.handle.log.info("seen", names=names)

    def post_bind(self, state: CycleState, info: PodInfo, node: str) -> None: ...


def test_a_task_may_wait_in_a_loop_over_objects_that_change() -> None:
    async def story() -> None:
        async with Cluster(pod("a"), pod("b"), nodes=1, plugins=[Slow]) as cluster:
            await cluster.run_for(0.5)
            await cluster.add(pod("c"))
            await cluster.delete("Pod", "a")
            await cluster.run_for(20)

    with capture_logs() as lines:
        run_virtually(story)
    assert not [line for line in lines if line["event"] == "plugin failed"]
    names = [line["names"] for line in lines if line["event"] == "seen"]
    assert (names[0], names[-1]) == (["a", "b"], ["b", "c"])


def test_a_handle_records_evictions() -> None:
    marked = node("n", annotations={"example.com/empty": "yes"})
    handle = FakeHandle(marked, pod("a", node="n"), pod("b"))
    asyncio.run(Emptying({}, handle).empty())
    (request,) = handle.requests
    assert (request.verb, request.kind, request.name) == ("evict", "Pod", "a")
    assert [each.metadata.name for each in handle.objects.every(Pod)] == ["b"]
    handle.answers("evict", "Pod", error("not now"))
    assert asyncio.run(handle.api.evict("b", "default")) == error("not now")


class Pairs(PreFilterPlugin, PermitPlugin):
    """Lets two pods be bound, and keeps the others waiting."""

    name = "Pairs"
    snapshot: StateKey[Snapshot] = StateKey("Pairs")

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Status:
        state.write(self.snapshot, snapshot)
        return SUCCESS

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        waiting = {each.info.uid for each in self.handle.waiting.each()}
        others = state.read(self.snapshot).pods("", {"app": "x"})
        placed = [other for _, other in others if other.uid not in waiting]
        return (SUCCESS, 0.0) if len(placed) < 2 else (Status(Code.WAIT), 600.0)


def test_permit_sees_the_pods_that_are_being_bound_in_the_snapshot_of_pre_filter() -> None:
    async def story() -> None:
        pods = [pod(name, labels={"app": "x"}) for name in "abcd"]
        async with Cluster(*pods, nodes=2, plugins=[Pairs]) as cluster:
            await cluster.run_for(60)
            assert sum(bool(each["spec"].get("nodeName")) for each in cluster.all("Pod")) == 2

    run_virtually(story)
