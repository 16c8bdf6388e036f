"""Kinds that the API server does not have or forbids to list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import numpy as np
import pytest

from berth.actors.client.rest import ApiError
from berth.actors.scheduling.decision.registry import build_profiles
from berth.actors.scheduling.kube.kinds import LOOKED_UP, NODES, PODS, type_of
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.config.load import from_mapping
from berth.plugin import (
    Action,
    ClusterEvent,
    Code,
    CycleState,
    FilterPlugin,
    Handle,
    Hint,
    NodeView,
    Pod,
    PodInfo,
    Registration,
    Resource,
    Verdicts,
)
from tests.kit.clock import VirtualClock
from tests.kit.daemon import Daemon, daemon
from tests.kit.handle import NoApi
from tests.kit.logs import capture_logs
from tests.kit.serving import open_to_all, url_of

BUDGETS, NAMESPACES, SERVICES = (
    "/apis/policy/v1/poddisruptionbudgets",
    "/api/v1/namespaces",
    "/api/v1/services",
)
ABSENT = ApiError(404, "NotFound", "the server could not find the requested resource")
FORBIDDEN = ApiError(403, "Forbidden", 'User "berth" cannot list it')
REFUSED_BUDGETS = (
    'cannot list poddisruptionbudgets in policy at the cluster scope: User "berth" cannot list it'
)
IMPORTANT = {"priority": 1000}
MISSING, GRANTED = "rights are missing", "rights are no longer refused"


def refusing(error: ApiError, *paths: str) -> Daemon:
    running = Daemon()
    running.api.refusals.update(dict.fromkeys(paths, error))
    return running


def budget(allowed: int) -> dict[str, Any]:
    return {
        "metadata": {"name": "b", "namespace": "default", "uid": "budget"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed},
    }


async def test_an_absent_kind_is_an_empty_list_until_it_is_created() -> None:
    never = {"neverBreakBudgets": True}
    profiles = [{"pluginConfig": [{"name": "DefaultPreemption", "args": never}]}]
    paths = [kind.path for kind in LOOKED_UP]
    with capture_logs() as logs:
        async with daemon({"profiles": profiles}, existing=refusing(ABSENT, *paths)) as running:
            assert running.started.is_set()
            running.put_node("n", "1")
            running.put_pod("a", "1", hostile={"metadata.labels": {"app": "web"}})
            await running.advance(300)
            assert running.node_of("a") == "n"
            lists = sum(request.startswith(f"GET {BUDGETS}") for request in running.api.requests)
            assert 5 <= lists <= 6
            del running.api.refusals[BUDGETS]
            running.api.put(BUDGETS, "default/b", budget(0))
            await running.advance(61)
            running.put_pod("b", "1", IMPORTANT)
            await running.advance(15)
            assert "preemption would break a PodDisruptionBudget" in running.message_of("b")
            running.api.refusals[BUDGETS] = ABSENT
            running.api.sever(forget=True)
            await running.advance(61)
            running.put_pod("c", "1", IMPORTANT)
            await running.advance(15)
            assert "default/a" not in running.api.documents(PODS.path)
    told = [line["event"] for line in logs if "poddisruptionbudgets in policy" in line["event"]]
    assert len(told) == 2  # once for each of its absences


@pytest.mark.parametrize(
    "error", [FORBIDDEN, ApiError(401, "Unauthorized", 'User "berth" cannot list it')]
)
async def test_forbidden_budgets_block_only_preemption(error: ApiError) -> None:
    options = open_to_all()
    url = url_of(options)
    server = refusing(error, BUDGETS)
    async with (
        daemon(options=options, existing=server) as running,
        aiohttp.ClientSession() as session,
    ):

        async def ready() -> tuple[int, str]:
            async with session.get(f"{url}/readyz/sched-handler-sync", ssl=False) as response:
                return response.status, await response.text()

        assert running.started.is_set()
        status, text = await ready()
        assert (status, text) == (500, f"internal server error: {REFUSED_BUDGETS}\n")
        running.put_node("n", "1")
        running.put_pod("a", "1")
        running.put_pod("unimportant", "1")
        await running.advance(2)
        assert running.node_of("a") == "n"
        running.put_pod("b", "1", IMPORTANT)
        await running.advance(30)
        assert running.message_of("b") == REFUSED_BUDGETS
        assert running.message_of("unimportant").startswith(
            "0/1 nodes are available: 1 Insufficient cpu."
        )
        assert running.node_of("a") == "n"
        del running.api.refusals[BUDGETS]
        await running.advance(90)
        assert running.node_of("b") == "n"
        assert await ready() == (200, "ok")


def rights(logs: Sequence[Mapping[str, Any]], event: str = MISSING) -> list[list[str]]:
    return [line["rights"] for line in logs if line["event"] == event]


async def test_missing_rights_are_named_in_one_line_once_a_minute() -> None:
    with capture_logs() as logs:
        async with daemon(existing=refusing(FORBIDDEN, BUDGETS, SERVICES)) as running:
            await running.advance(3)
            both = ["list services", "list poddisruptionbudgets.policy"]
            assert rights(logs) == [both]
            await running.advance(600)
            assert rights(logs) == [both] * len(rights(logs))
            assert 10 <= len(rights(logs)) <= 11
            assert [line["event"] for line in logs].count(REFUSED_BUDGETS) == 1
            del running.api.refusals[BUDGETS]
            await running.advance(60)
            assert rights(logs, GRANTED) == [both[1:]]
            assert rights(logs)[-1] == both[:1]
            del running.api.refusals[SERVICES]
            await running.advance(60)
            assert rights(logs, GRANTED) == [both[1:], both[:1]]
            logs.clear()
            await running.advance(120)
            assert logs == []


async def test_a_refused_binding_is_a_missing_right_until_one_succeeds() -> None:
    cannot = 'pods "a" is forbidden: User "berth" cannot create resource "pods/binding"'
    path = f"{PODS.path}/binding"
    with capture_logs() as logs:
        async with daemon(existing=refusing(ApiError(403, "Forbidden", cannot), path)) as running:
            running.put_node("n")
            running.put_pod("a")
            await running.advance(10)
            (line,) = [line for line in logs if line["event"] == MISSING]
            assert line["rights"] == ["create pods/binding in default"]
            assert line["error"] == cannot
            del running.api.refusals[path]
            await running.advance(30)
            assert running.node_of("a") == "n"
            assert rights(logs, GRANTED) == [line["rights"]]


async def test_a_refusal_of_an_admission_plugin_is_no_missing_right() -> None:
    path = f"{PODS.path}/binding"
    with capture_logs() as logs:
        quota = ApiError(403, "Forbidden", 'pods "a" is forbidden: exceeded quota')
        async with daemon(existing=refusing(quota, path)) as running:
            running.put_node("n")
            running.put_pod("a")
            await running.advance(90)
            assert rights(logs) == []


def rule(groups: list[str], resources: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


async def test_a_review_names_all_missing_rights_at_the_start() -> None:
    running = Daemon()
    reads = rule(["*"], ["*"], ["get", "list", "watch"])
    running.api.rules = {"resourceRules": [reads, rule([""], ["pods/binding"], ["create"])]}
    with capture_logs() as logs:
        async with daemon(existing=running):
            await running.advance(1)
            assert rights(logs) == [
                ["delete pods", "patch pods/status", "create,patch events.events.k8s.io"]
            ]
            running.api.rules = {"resourceRules": [rule(["*"], ["*"], ["*"])]}
            await running.advance(70)
            assert len(rights(logs, GRANTED)) == 1
            logs.clear()
            running.api.rules = {"resourceRules": [], "incomplete": True}
            await running.advance(70)
            assert logs == []


@pytest.mark.parametrize("path", [NODES.path, PODS.path])
async def test_nothing_starts_until_nodes_and_pods_may_be_listed(path: str) -> None:
    options = open_to_all()
    url = url_of(options)
    server = refusing(FORBIDDEN, path)
    server.put_node("n")
    server.put_pod("a")
    with capture_logs() as logs:
        async with (
            daemon(options=options, existing=server) as running,
            aiohttp.ClientSession() as session,
        ):
            await running.advance(120)
            assert not running.started.is_set()
            told = (
                f'cannot list {path.rpartition("/")[2]} at the cluster scope: User "berth" '
                f"cannot list it"
            )
            warned = [line["event"] for line in logs if line["log_level"] == "warning"]
            assert [line for line in warned if line.startswith("cannot list")] == [told]
            assert 2 <= len(rights(logs)) <= 3
            async with session.get(f"{url}/readyz/sched-handler-sync", ssl=False) as response:
                assert (response.status, told in await response.text()) == (500, True)
            del running.api.refusals[path]
            await running.advance(90)
            assert running.started.is_set()
            assert running.node_of("a") == "n"
            async with session.get(f"{url}/readyz/sched-handler-sync", ssl=False) as response:
                assert response.status == 200


def anti_affinity(**term: Any) -> dict[str, Any]:
    full = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "other"}},
        **term,
    }
    return {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [full]}}
    }


async def test_forbidden_namespaces_matter_only_to_namespace_selectors() -> None:
    by_name = anti_affinity()
    by_label = anti_affinity(namespaceSelector={"matchLabels": {"team": "a"}})
    in_all = anti_affinity(namespaceSelector={})
    async with daemon(existing=refusing(FORBIDDEN, NAMESPACES)) as running:
        running.put_node("n")
        for name, spec in (
            ("plain", {}),
            ("by-name", by_name),
            ("in-all", in_all),
            ("by-label", by_label),
        ):
            running.put_pod(name, spec=spec)
        await running.advance(5)
        assert [running.node_of(name) for name in ("plain", "by-name", "in-all")] == ["n"] * 3
        refused = 'cannot list namespaces at the cluster scope: User "berth" cannot list it'
        assert running.message_of("by-label") == refused
        running.put_pod("there", spec={**by_label, "nodeName": "n"})
        await running.advance(1)
        running.put_pod("met")  # because of a selector of the pod on the node
        await running.advance(5)
        assert running.message_of("met") == refused
        del running.api.refusals[NAMESPACES]
        await running.advance(90)
        assert [running.node_of(name) for name in ("by-label", "met")] == ["n"] * 2


async def test_system_default_spreading_ignores_forbidden_kinds_and_a_profiles_does_not() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    args = {"defaultingType": "List", "defaultConstraints": [constraint]}
    profiles = [
        {"schedulerName": "default-scheduler"},
        {"schedulerName": "own", "pluginConfig": [{"name": "PodTopologySpread", "args": args}]},
    ]
    async with daemon({"profiles": profiles}, existing=refusing(FORBIDDEN, SERVICES)) as running:
        running.put_node("n")
        running.put_node("m")
        running.put_pod("by-system")
        running.put_pod("by-list", spec={"schedulerName": "own"})
        await running.advance(5)
        assert running.node_of("by-system")
        assert running.message_of("by-list").startswith(
            "cannot list services at the cluster scope: "
        )


OF_VOLUMES = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
OF_DEVICES = ("DynamicResources", "NodeResourcesFit")


def followed(running: Daemon) -> set[str]:
    """Returns the paths that were listed or watched."""
    requests = [request.split() for request in running.api.requests]
    return {path.partition("?")[0] for method, path in requests if method in ("GET", "WATCH")}


async def test_only_kinds_that_an_enabled_plugin_uses_are_followed() -> None:
    names = ("InterPodAffinity", "PodTopologySpread", *OF_VOLUMES, *OF_DEVICES)
    only = {"disabled": [{"name": name} for name in names]}
    async with daemon({"profiles": [{"plugins": {"multiPoint": only}}]}) as running:
        await running.advance(1)
        listed = followed(running)
    assert listed == {NODES.path, PODS.path, BUDGETS}
    async with daemon() as running:
        await running.advance(1)
        listed = followed(running)
    (profile,) = build_profiles(from_mapping(None), IN_TREE, NoApi()).values()
    used = {type_of(kind) for plugin in profile.plugins for kind in plugin.lookups}
    paths = {kind.path for kind in LOOKED_UP if kind.type in used}
    assert listed == {NODES.path, PODS.path, *paths}


class Waits(FilterPlugin):
    """A plugin that rejects pods until a Service with a label is added; it looks up no Services."""

    name = "Waits"

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        super().__init__(args, handle)
        self.come = False

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        rejected = np.full(nodes.size, not self.come)
        return Verdicts.rejecting(rejected, Code.UNSCHEDULABLE, "not yet")

    def events_to_register(self) -> tuple[Registration, ...]:
        def comes(_pod: Pod, _old: object | None, _new: object | None) -> Hint:
            self.come = True
            return Hint.QUEUE

        return (Registration(ClusterEvent(Resource.SERVICE, Action.ADD), comes),)


async def test_a_kind_that_a_plugin_waits_for_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(IN_TREE, "Waits", Waits)
    names = ("InterPodAffinity", "PodTopologySpread", "DefaultPreemption", *OF_VOLUMES, *OF_DEVICES)
    only = {"disabled": [{"name": name} for name in names], "enabled": [{"name": "Waits"}]}
    async with daemon({"profiles": [{"plugins": {"multiPoint": only}}]}) as running:
        running.put_node("n")
        running.put_pod("a")
        await running.advance(2)
        assert "1 not yet" in running.message_of("a")
        listed = followed(running)
        assert listed == {NODES.path, PODS.path, SERVICES}
        running.api.put(
            SERVICES, "default/s", {"metadata": {"namespace": "default", "name": "s", "uid": "s"}}
        )
        await running.advance(5)
        assert running.node_of("a") == "n"


async def test_a_kind_that_is_forbidden_later_keeps_its_objects() -> None:
    running = Daemon(clock=VirtualClock())
    running.api.put(BUDGETS, "default/b", budget(1))
    async with daemon(existing=running):
        running.put_node("n", "1")
        running.put_pod("a", "1", hostile={"metadata.labels": {"app": "web"}})
        await running.advance(2)
        running.api.refusals[BUDGETS] = FORBIDDEN
        running.api.sever(forget=True)
        running.put_pod("b", "1", IMPORTANT)
        await running.advance(30)
        assert running.node_of("b") == "n"


async def test_the_server_omits_finished_pods() -> None:
    async with daemon() as running:
        running.put_node("n", "1")
        running.put_pod("a", "1")
        await running.advance(2)
        running.put_pod("b", "1")
        await running.advance(2)
        assert not running.node_of("b")
        running.put_pod("a", "1", hostile={"status.phase": "Succeeded"})
        await running.advance(15)
        assert running.node_of("b") == "n"
        selector = "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
        assert all(
            selector in request for request in running.api.requests if f" {PODS.path}?" in request
        )
