"""Random steps are tried by `berth whatif`, and then taken in an embedded cluster in virtual time:
the pods land on the same nodes.

Pods end at once, and the images of nodes do not count, because time does not pass in a what-if.
Scale-downs are left out: among equal pods the controller chooses by their uids.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from berth.actors.scheduling.decision.observer import DecisionObserver
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.scheduling.model.vectors import Ints
from berth.tools.apiserver.api import Api
from berth.tools.apiserver.resources import BY_KIND
from berth.tools.apiserver.store import Store
from berth.tools.feature_gates import gates_from
from berth.tools.hollow.embedded import Embedded
from berth.tools.hollow.kubelet.nodes import hollow_node
from berth.tools.whatif.steps import steps_of
from berth.tools.whatif.trying import result_of
from tests.kit.cluster import configured
from tests.kit.embedded import run_virtually, running
from tests.kit.virtual_loop import LoopClock

Document = dict[str, Any]
Placements = Counter[tuple[str, str]]
Plan = list[tuple[str, Document | None]]
NODES, SETTLE_SECONDS = 5, 100.0
PODS, KINDS = "/api/v1/namespaces/default/pods", ("Node", "Namespace", "PriorityClass")
WITHOUT_IMAGES = configured(
    profiles=[
        {
            "schedulerName": "default-scheduler",
            "plugins": {"multiPoint": {"disabled": [{"name": "ImageLocality"}]}},
        }
    ]
)
WORKLOADS = {"Deployment": "deployments", "StatefulSet": "statefulsets"}


class TieSeen(DecisionObserver):
    """Notes whether a tie was broken by chance."""

    def __init__(self) -> None:
        self.tie = False

    def compared(self, rows: Ints, totals: Ints, snapshot: Snapshot) -> None:
        self.tie = self.tie or int((totals == totals.max()).sum()) > 1


def _pod_spec(cpu: int, *, tolerates: bool) -> Document:
    preferred = [
        {
            "weight": 7 * number,
            "preference": {
                "matchExpressions": [
                    {
                        "key": "kubernetes.io/hostname",
                        "operator": "In",
                        "values": [f"node-{number}", f"node-{number}-copy-1"],
                    }
                ]
            },
        }
        for number in range(1, NODES + 1)
    ]
    return {
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"key": "a", "operator": "Exists"}] if tolerates else [],
        "affinity": {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        },
        "containers": [
            {
                "name": "c",
                "image": "nginx",
                "resources": {"requests": {"cpu": f"{cpu}m", "memory": f"{cpu}Mi"}},
            }
        ],
    }


def _workload(kind: str, name: str, replicas: int, spec: Document) -> Document:
    fields = {"podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            **fields,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }


def _bare(name: str, spec: Document) -> Document:
    metadata = {"name": name, "namespace": "default", "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Draws steps, each with the object that it applies, in an order that makes sense."""
    nodes = [f"node-{number}" for number in range(1, NODES + 1)]
    like, workloads, pods = list(nodes), dict[str, int](), list[str]()
    plan: Plan = []
    verbs = ["apply", "pod", "scale", "cordon", "uncordon", "taint", "untaint", "add", "drain"]
    for number in range(draw(st.integers(2, 7))):
        verb = "apply" if number == 0 else draw(st.sampled_from([*verbs, "remove", "delete"]))
        node = draw(st.sampled_from(nodes))
        spec = _pod_spec(draw(st.integers(1, 40)) * 90 + 7, tolerates=draw(st.booleans()))
        if verb == "apply":
            kind, replicas = draw(st.sampled_from(list(WORKLOADS))), draw(st.integers(1, 6))
            name = f"{kind.lower()}/w{number}"
            workloads[name] = replicas
            plan.append((f"apply w{number}", _workload(kind, f"w{number}", replicas, spec)))
        elif verb == "pod":
            pods.append(f"p{number}")
            plan.append((f"apply p{number}", _bare(f"p{number}", spec)))
        elif verb == "scale":
            name = draw(st.sampled_from(list(workloads)))
            workloads[name] += draw(st.integers(1, 3))
            plan.append((f"scale {name} {workloads[name]}", None))
        elif verb == "add" and node in like:
            like.remove(node)
            nodes.append(f"{node}-copy-1")
            plan.append((f"add 1 like {node}", None))
        elif verb == "remove" and len(nodes) > 2:
            nodes.remove(node)
            pods.clear()  # perhaps deleted with the node
            like = [name for name in like if name != node]
            # Who is replaced first after the loss of a node is left to chance.
            plan += [(f"drain {node}", None), (f"remove {node}", None)]
        elif verb == "delete" and pods:
            plan.append((f"delete {pods.pop()}", None))
        elif verb in ("cordon", "uncordon", "drain"):
            pods = [] if verb == "drain" else pods  # perhaps evicted
            plan.append((f"{verb} {node}", None))
        elif verb in ("taint", "untaint"):
            plan.append((f"taint {node} a=b:NoSchedule{'-' if verb == 'untaint' else ''}", None))
    return plan


class Reality:
    """An embedded cluster in which the steps are taken as people take them."""

    def __init__(self) -> None:
        self._store = Store()
        self._api = Api(self._store)
        self._access = Embedded(self._store)
        self.seen = TieSeen()
        self.races = False  # pods of several workloads waited: their backoff decided who came first

    async def play(self, plan: Plan) -> tuple[list[Document], Placements]:
        """Returns the objects before the steps, and the placements after them."""
        clock, rng = LoopClock(), Random(1)
        self._api.seed()
        for number in range(1, NODES + 1):
            self._api.create(BY_KIND["v1", "Node"], "", hollow_node(number))
        async with running(self._access, clock, rng, WITHOUT_IMAGES, self.seen):
            await anyio.sleep(SETTLE_SECONDS)
            after: Placements = Counter()
            before = [doc for kind in KINDS for doc in self._all(kind)]
            for sentence, applied in plan:
                await self._take(sentence.split(), applied)
                await anyio.sleep(SETTLE_SECONDS)
                after = Counter(
                    (pod["metadata"]["labels"]["app"], pod["spec"].get("nodeName", ""))
                    for pod in self._all("Pod")
                )
                self.races = self.races or sum(not node for _, node in after) > 1
        return before, after

    def _all(self, kind: str) -> list[Document]:
        served = next(
            of for (_, name), of in BY_KIND.items() if name == kind and of.stored_as is None
        )
        return [json.loads(stored.raw) for stored in self._store.list(served, "")]

    async def _call(self, method: str, path: str, body: Document | None = None) -> None:
        await self._access.call(method, path, dict, body)

    async def _take(self, words: list[str], applied: Document | None) -> None:
        node = f"/api/v1/nodes/{words[-1]}"
        match words:
            case ["apply", _]:
                assert applied is not None
                plural = WORKLOADS.get(applied["kind"], "")
                group = f"/apis/apps/v1/namespaces/default/{plural}" if plural else PODS
                await self._call("POST", group, applied)
            case ["scale", name, number]:
                kind, _, name = name.partition("/")
                path = f"/apis/apps/v1/namespaces/default/{kind}s/{name}/scale"
                await self._access.patch(path, {"spec": {"replicas": int(number)}}, dict, "merge")
            case ["cordon" | "uncordon" as verb, _]:
                await self._cordon(node, on=verb == "cordon")
            case ["taint", name, taint]:
                taints = [{"key": "a", "value": "b", "effect": "NoSchedule"}]
                body = {"spec": {"taints": [] if taint.endswith("-") else taints}}
                await self._access.patch(f"/api/v1/nodes/{name}", body, dict, "merge")
            case ["add", _, _, name]:
                like = hollow_node(int(name.rpartition("-")[2]))
                like["metadata"]["name"] = f"{name}-copy-1"
                like["metadata"]["labels"]["kubernetes.io/hostname"] = f"{name}-copy-1"
                present = next(n for n in self._all("Node") if n["metadata"]["name"] == name)
                spec = present.get("spec", {})
                kept = {key: spec[key] for key in ("taints", "unschedulable") if key in spec}
                await self._call("POST", "/api/v1/nodes", {**like, "spec": kept})
            case ["remove", _]:
                await self._call("DELETE", node)
            case ["drain", name]:
                await self._cordon(node, on=True)
                for pod in sorted(self._all("Pod"), key=lambda pod: str(pod["metadata"]["name"])):
                    if pod["spec"].get("nodeName") == name:
                        await self._evict(pod["metadata"]["name"])
            case ["delete", name]:
                await self._call("DELETE", f"{PODS}/{name}")

    async def _evict(self, name: str) -> None:
        metadata = {"name": name, "namespace": "default"}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        await self._call("POST", f"{PODS}/{name}/eviction", body)

    async def _cordon(self, node: str, *, on: bool) -> None:
        await self._access.patch(node, {"spec": {"unschedulable": on or None}}, dict, "merge")


def compare(folder: Path, plan: Plan) -> None:
    reality = Reality()
    before, after = run_virtually(partial(reality.play, plan))
    assume(not reality.seen.tie and not reality.races)
    sentences = []
    for sentence, applied in plan:
        if applied is not None:
            path = folder / f"{sentence.split()[1]}.json"
            path.write_text(json.dumps(applied))
            sentence = f"apply {path}"
        sentences.append(sentence)
    result = result_of(before, WITHOUT_IMAGES, gates_from(()), steps_of(sentences), seed=1)
    tried = Counter((_app(each.workload), each.node) for each in result.placed)
    for each in result.pending:
        tried[_app(each.workload), ""] += len(each.pods)
    assert tried == after, (sentences, tried - after, after - tried)


def _app(workload: str) -> str:
    return workload.rpartition("/")[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("whatif")


@pytest.mark.full("long")
@given(plan=plans())
def test_pods_land_where_a_what_if_says(folder: Path, plan: Plan) -> None:
    compare(folder, plan)
