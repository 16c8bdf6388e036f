"""Random steps are tried by `berth whatif`, and then taken in an embedded cluster in virtual time:
the pods land on the same nodes.

Pods end at once, and the images of nodes do not count, because time does not pass in a what-if.
Scale-downs are left out: among equal pods the controller chooses by their uids.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from random import Random

import anyio
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from berth.actors.scheduling.decision.observer import DecisionObserver
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.scheduling.model.vectors import Ints
from berth.config.types import KubeSchedulerConfiguration
from berth.tools.answers.terminal.feature_gates import gates_from
from berth.tools.answers.whatif.question import Content, Written
from berth.tools.answers.whatif.trial import result_of
from berth.tools.answers.whatif.tried_documents import Documents
from berth.tools.answers.whatif.verbs import steps_of
from berth.tools.cluster.controllers.embedded_access import EmbeddedAccess
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.virtual_time import LoopClock, run_virtually
from tests.kit.cluster import configured
from tests.kit.documents import Document, thing
from tests.kit.embedded import running
from tests.kit.examples import examples
from tests.kit.stores import fresh_store

Placements = Counter[tuple[str, str]]
Plan = list[tuple[str, Document | None]]
SELDOM = ("remove", "delete", "priority", "configure")
NODES, SETTLE_SECONDS = 5, 100.0
PODS, KINDS = "/api/v1/namespaces/default/pods", ("Node", "Namespace", "PriorityClass")
CLASS, CLASSES = "middle", "/apis/scheduling.k8s.io/v1/priorityclasses"
WORKLOADS = {
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/default/statefulsets",
    "DaemonSet": "/apis/apps/v1/namespaces/default/daemonsets",
    "Job": "/apis/batch/v1/namespaces/default/jobs",
}

IGNORED = {
    "rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    ]
}


def _configuration(strategy: str) -> Document:
    fit = {"scoringStrategy": {"type": strategy, "resources": [{"name": "cpu", "weight": 1}]}}
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": {"disabled": [{"name": "ImageLocality"}]}},
        "pluginConfig": [{"name": "NodeResourcesFit", "args": fit}],
    }
    return {"profiles": [profile]}


CONFIGURATIONS = {name: _configuration(name) for name in ("LeastAllocated", "MostAllocated")}
WITHOUT_IMAGES = configured(**CONFIGURATIONS["LeastAllocated"])


class TieSeen(DecisionObserver):
    """Notes whether a tie was broken by chance."""

    def __init__(self) -> None:
        self.tie = False

    def compared(
        self, rows: Ints, totals: Ints, highest: int, ties: Ints, snapshot: Snapshot
    ) -> None:
        self.tie = self.tie or int((totals == totals.max()).sum()) > 1


def _pod_spec(cpu: int, *, tolerates: bool, important: bool = False) -> Document:
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
        **({"priorityClassName": CLASS} if important else {}),
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
    labels = {"app": name}
    if kind == "Job":
        metadata = {"labels": labels, "annotations": {"berth.dev/run-seconds": "1000000"}}
        template = {"metadata": metadata, "spec": {**spec, "restartPolicy": "Never"}}
        return {
            "apiVersion": "batch/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": "default"},
            # Evictions neither delay pods nor end the Job.
            "spec": {
                "parallelism": replicas,
                "completions": 1000,
                "template": template,
                "podFailurePolicy": IGNORED,
            },
        }
    fields: Document = {} if kind == "DaemonSet" else {"replicas": replicas}
    fields |= {"podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            **fields,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
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
        verb = "apply" if number == 0 else draw(st.sampled_from([*verbs, *SELDOM]))
        node = draw(st.sampled_from(nodes))
        cpu, tolerates = draw(st.integers(1, 40)) * 90 + 7, draw(st.booleans())
        spec = _pod_spec(cpu, tolerates=tolerates, important=draw(st.integers(0, 3)) == 0)
        if verb == "apply":
            kind, replicas = draw(st.sampled_from(list(WORKLOADS))), draw(st.integers(1, 6))
            name = f"{kind.lower()}/w{number}"
            if kind != "DaemonSet":
                workloads[name] = replicas
            plan.append((f"apply w{number}", _workload(kind, f"w{number}", replicas, spec)))
        elif verb == "pod":
            pods.append(f"p{number}")
            plan.append((f"apply p{number}", _bare(f"p{number}", spec)))
        elif verb == "scale" and workloads:
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
        elif verb == "priority":
            plan.append((f"priority {CLASS} {draw(st.integers(1, 3)) * 100}", None))
        elif verb == "configure":
            plan.append((f"configure {draw(st.sampled_from(sorted(CONFIGURATIONS)))}", None))
        elif verb in ("taint", "untaint"):
            plan.append((f"taint {node} a=b:NoSchedule{'-' if verb == 'untaint' else ''}", None))
    return plan


def _by_configuration(plan: Plan) -> list[tuple[KubeSchedulerConfiguration, Plan]]:
    parts: list[tuple[KubeSchedulerConfiguration, Plan]] = [(WITHOUT_IMAGES, [])]
    for sentence, applied in plan:
        verb, _, word = sentence.partition(" ")
        if verb == "configure":
            parts.append((configured(**CONFIGURATIONS[word]), []))
        else:
            parts[-1][1].append((sentence, applied))
    return parts


class Reality:
    """An embedded cluster in which the steps are taken as people take them."""

    def __init__(self) -> None:
        self._store = fresh_store()
        self._api = Api(self._store)
        self._access = EmbeddedAccess(self._store)
        self.seen = TieSeen()
        self.races = False  # pods of several workloads waited: their backoff decided who came first

    async def play(self, plan: Plan) -> tuple[list[Document], Placements]:
        """Returns the objects before the steps, and the placements after them."""
        clock, rng = LoopClock(), Random(1)
        self._api.seed()
        for number in range(1, NODES + 1):
            self._api.create(BY_KIND["v1", "Node"], "", hollow_node(number))
        await self._create_class(100)
        after: Placements = Counter()
        before: list[Document] = []
        for configuration, steps in _by_configuration(plan):
            async with running(self._access, clock, rng, configuration, self.seen):
                await anyio.sleep(SETTLE_SECONDS)
                before = before or [doc for kind in KINDS for doc in self._all(kind)]
                self._look(after)
                for sentence, applied in steps:
                    await self._take(sentence.split(), applied)
                    await anyio.sleep(SETTLE_SECONDS)
                    self._look(after)
        return before, after

    def _look(self, after: Placements) -> None:
        after.clear()
        after.update(placements(self._all("Pod")))
        self.races = self.races or sum(not node for _, node in after) > 1

    async def _create_class(self, value: int) -> None:
        body = thing("PriorityClass", CLASS, value=value)
        await self._call("POST", CLASSES, body)

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
                await self._call("POST", WORKLOADS.get(applied["kind"], PODS), applied)
            case ["scale", name, number]:
                kind, _, name = name.partition("/")
                path = next(p for k, p in WORKLOADS.items() if k.lower() == kind)
                field = "parallelism" if kind == "job" else "replicas"
                body: Document = {"spec": {field: int(number)}}
                await self._access.patch(f"{path}/{name}", body, dict, "merge")
            case ["priority", name, number]:
                await self._call("DELETE", f"{CLASSES}/{name}")
                await self._create_class(int(number))
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
                # A new node is not cordoned.
                taints = [taint for taint in spec.get("taints") or () if taint["key"] == "a"]
                await self._call("POST", "/api/v1/nodes", {**like, "spec": {"taints": taints}})
            case ["remove", _]:
                await self._call("DELETE", node)
            case ["drain", name]:
                await self._cordon(node, on=True)
                for pod in sorted(self._all("Pod"), key=lambda pod: str(pod["metadata"]["name"])):
                    owners = pod["metadata"].get("ownerReferences") or [{}]
                    here = pod["spec"].get("nodeName") == name
                    if here and owners[0].get("kind") != "DaemonSet":
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
    written: list[Written] = []
    for sentence, applied in plan:
        if applied is not None:
            path = folder / f"{sentence.split()[1]}.json"
            path.write_text(json.dumps(applied))
            sentence = f"apply {path}"
        if sentence.startswith("configure"):
            written.append(Content(configure=_whole(CONFIGURATIONS[sentence.split()[1]])))
            continue
        written.append(sentence)
    documents = Documents(before, WITHOUT_IMAGES, gates_from(()))
    documents = Documents(before, WITHOUT_IMAGES, gates_from(()))
    result_of(documents, steps_of(written), seed=1)
    tried = placements(pod for _, pod in documents.every("Pod"))
    assert tried == after, (written, tried - after, after - tried)


def placements(pods: Iterable[Document]) -> Placements:
    return Counter(
        (pod["metadata"]["labels"]["app"], pod["spec"].get("nodeName", "")) for pod in pods
    )


def _whole(configuration: Document) -> Document:
    kind = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
    }
    return {**kind, **configuration}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("whatif")


@pytest.mark.full("long")
@examples(0.2)
@given(plan=plans())
def test_pods_land_where_a_what_if_says(folder: Path, plan: Plan) -> None:
    compare(folder, plan)
