"""Pods on tainted devices, and the rules that taint them: TestController and TestDeviceTaintRule of
Kubernetes 1.37 (pkg/controller/devicetainteviction/device_taint_eviction_test.go) as tables.

Where upstream begins with a pod that is marked for deletion, the claim here tolerates the taint for
a minute. Rows about claims of pod groups are left out.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.kube.devices import ResourceClaim, ResourceSlice
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.kube.times import rfc3339
from berth.tools.cluster.controllers.controller_table import ControllerTable
from berth.tools.kubernetes.object_index import ObjectChange, ObjectIndex
from berth.tools.kubernetes.objects.structs import TYPES, DeviceTaintRule, Document, Pod, read
from berth.tools.kubernetes.objects.writes import Again, Create, Delete, Patch
from berth.tools.kubernetes.work_items import Item

START = datetime(2026, 1, 1, tzinfo=UTC)
ADDED = rfc3339(START)
KEY, VALUE = "example.com/taint", "something"
DELETED, CANCELLED = "Marking for deletion", "Cancelling deletion"
NEED = "True PodsPendingEviction 2 pods need to be evicted in"
NEEDED = "True PodsPendingEviction 1 pod needs to be evicted in 1 namespace."
NOT_STARTED, COMPLETED = (
    "False NotStarted",
    "False Completed 1 pod evicted since starting the controller.",
)


class Cluster:
    """The controllers, with objects that they follow at once."""

    def __init__(self) -> None:
        self.now = START
        self.events: list[str] = []
        self._index = ObjectIndex()
        self._table = ControllerTable(
            lambda: self.now, names={"device-taint-rules", "device-eviction"}
        )
        self._ready: dict[Item, None] = {}
        self._later: list[tuple[datetime, Item]] = []
        self._version = 0

    def put(self, obj: HasMetadata) -> None:
        self._version += 1
        metadata = msgspec.structs.replace(obj.metadata, resource_version=str(self._version))
        self._changed(self._index.put(msgspec.structs.replace(obj, metadata=metadata)))  # type: ignore[type-var]

    def remove(self, obj: HasMetadata) -> None:
        self._version += 1
        metadata = msgspec.structs.replace(obj.metadata, resource_version=str(self._version))
        self._changed(self._index.remove(msgspec.structs.replace(obj, metadata=metadata)))  # type: ignore[type-var]

    def _changed(self, change: ObjectChange | None) -> None:
        if change is not None:
            self._ready |= dict.fromkeys(self._table.touched(self._index, change))

    def settle(self) -> None:
        while self._ready:
            item = next(iter(self._ready))
            del self._ready[item]
            for write in self._table.reconcile(self._index, item, self.now):
                match write:
                    case Again(seconds):
                        self._later.append((self.now + timedelta(seconds=seconds), item))
                    case Create(document=document):
                        self.events.append(
                            f"{document['involvedObject']['name']}: {document['message']}"
                        )
                    case Delete(namespace=namespace, name=name):
                        found = self._index.find(Pod, namespace, name)
                        assert found is not None
                        self.remove(found)
                    case Patch(kind="DeviceTaintRule", name=name, body=body):
                        told = self._index.find(DeviceTaintRule, "", name)
                        assert told is not None
                        status = read(body["status"], type(told.status))
                        self.put(msgspec.structs.replace(told, status=status))

    def advance(self, seconds: float) -> None:
        end = self.now + timedelta(seconds=seconds)
        while due := [at for at, _ in self._later if at <= end]:
            self.now = max(self.now, min(due))
            now = [item for at, item in self._later if at <= self.now]
            self._later = [(at, item) for at, item in self._later if at > self.now]
            self._ready |= dict.fromkeys(now)
            self.settle()
        self.now = end

    def pods(self) -> list[str]:
        return sorted(pod.metadata.uid for pod in self._index.all(Pod))

    def statuses(self) -> dict[str, str]:
        told = {}
        for rule in self._index.all(DeviceTaintRule):
            for condition in rule.status.conditions:
                assert condition.type == "EvictionInProgress"
                words = condition.status, condition.reason, condition.message
                told[rule.metadata.name] = " ".join(filter(None, words))
        return told


def metadata(name: str, uid: str = "", **more: Any) -> Document:
    return {"name": name, "uid": uid or name, "generation": 1, **more}


def taint(
    key: str = KEY, value: str = VALUE, effect: str = "NoExecute", after: float = 0
) -> Document:
    added = rfc3339(START + timedelta(seconds=after))
    return {"key": key, "value": value, "effect": effect, "timeAdded": added}


def published(
    *taints: Document,
    name: str = "slice",
    pool: str = "worker",
    other: str = "",
    generation: int = 1,
) -> ResourceSlice:
    """Returns upstream's slice; `taints` are those of the device `instance`."""
    devices = [
        {"name": "instance", "taints": [*taints]},
        {"name": "instance-no-schedule", "taints": [taint(value="", effect="NoSchedule")]},
        {
            "name": "instance-no-execute",
            "taints": [taint(value="", effect="None"), taint(value="")],
        },
    ]
    spec = {
        "driver": "some-driver",
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
        "devices": [{**device, "name": f"{device['name']}{other}"} for device in devices],
    }
    return read({"metadata": metadata(name), "spec": spec}, ResourceSlice)


def rule(
    name: str = "evict", effect: str = "NoExecute", after: float = 0, **selector: str
) -> DeviceTaintRule:
    spec = {
        "deviceSelector": selector or {"driver": "some-driver"},
        "taint": taint(effect=effect, after=after),
    }
    return read({"metadata": metadata(name), "spec": spec}, DeviceTaintRule)


def claim(
    *tolerations: Document,
    name: str = "claim",
    users: tuple[str, ...] = ("my-pod",),
    namespace: str = "default",
    devices: tuple[str, ...] = ("instance",),
    owner: str = "my-pod",
) -> ResourceClaim:
    """Returns a claim that holds devices; `users` and `owner` are uids of pods."""
    results = [
        {
            "driver": "some-driver",
            "pool": "worker",
            "device": device,
            "request": "req-1",
            "tolerations": [{"effect": "NoExecute", **each} for each in tolerations],
        }
        for device in devices
    ]
    owners = [{"kind": "Pod", "name": owner, "uid": owner, "controller": True, "apiVersion": "v1"}]
    document = {
        "metadata": metadata(
            name, f"{namespace}-{name}", namespace=namespace, ownerReferences=owners
        ),
        "status": {
            "allocation": {"devices": {"results": results}} if devices else None,
            "reservedFor": [{"resource": "pods", "name": uid, "uid": uid} for uid in users],
        },
    }
    return read(document, ResourceClaim)


def pod(
    name: str = "my-pod",
    uid: str = "",
    on: str = "worker",
    namespace: str = "default",
    claims: tuple[str, ...] = ("claim",),
    template: bool = False,
    made: str | None = None,
) -> Pod:
    field = "resourceClaimTemplateName" if template else "resourceClaimName"
    document = {
        "metadata": metadata(name, uid, namespace=namespace),
        "spec": {
            "nodeName": on,
            "resourceClaims": [{"name": each, field: each} for each in claims],
        },
        "status": {
            "phase": "Running",
            "resourceClaimStatuses": [{"name": "claim", "resourceClaimName": made}]
            if template
            else [],
        },
    }
    return read(document, Pod)


EXISTS = {"operator": "Exists"}
TAINTED, PLAIN, SECOND = (
    published(taint()),
    published(),
    published(name="2", pool="worker-2", generation=2),
)
TWICE = published(taint(value=""), taint(f"{KEY}-other", ""))
MADE = pod(template=True, made="claim")
MINUTE = claim({**EXISTS, "tolerationSeconds": 60})
OTHER = ("instance-no-schedule", "instance-no-execute")
Row = tuple[list[Any], list[str], list[str]]  # the steps, the events, the uids of the pods left

ROWS: dict[str, Row] = {
    "untainted-claim": ([PLAIN, SECOND, claim(), pod()], [], ["my-pod"]),
    "evict-pod-resourceclaim": ([TAINTED, SECOND, claim(), pod()], [DELETED], []),
    "evict-pod-after-scheduling": (
        [TAINTED, SECOND, claim(), pod(on=""), pod()],
        [DELETED],
        [],
    ),
    "evict-pod-resourceclaim-unrelated-changes": (
        [TAINTED, SECOND, MINUTE, pod(), pod(), claim({**EXISTS, "tolerationSeconds": 60}), SECOND],
        [],
        ["my-pod"],
    ),
    "evict-pod-resourceclaimtemplate": ([TAINTED, SECOND, claim(), MADE], [DELETED], []),
    "evict-pod-later": (
        [
            TAINTED,
            SECOND,
            claim({"key": KEY, "value": VALUE, "tolerationSeconds": 3600}),
            pod(),
            3600,
        ],
        [DELETED],
        [],
    ),
    "evict-pod-later (a second before)": (
        [
            TAINTED,
            SECOND,
            claim({"key": KEY, "value": VALUE, "tolerationSeconds": 3600}),
            pod(),
            3599,
        ],
        [],
        ["my-pod"],
    ),
    "evict-pod-later-many": (
        [
            TAINTED,
            SECOND,
            claim(
                {"key": f"{KEY}-other", "value": VALUE, "tolerationSeconds": 20},
                {**EXISTS, "tolerationSeconds": 60},
                {**EXISTS, "tolerationSeconds": 30},
            ),
            pod(),
            29,
            ["my-pod"],
            1,
        ],
        [DELETED],
        [],
    ),
    "evict-pod-toleration-mismatch": (
        [
            TAINTED,
            SECOND,
            claim({"key": f"{KEY}-other", "value": VALUE, "tolerationSeconds": 60}),
            pod(),
        ],
        [DELETED],
        [],
    ),
    "no-evict-pod-toleration-forever": ([TAINTED, SECOND, claim(EXISTS), pod()], [], ["my-pod"]),
    "no-evict-pod-toleration-forever-many": (
        [TAINTED, SECOND, claim({**EXISTS, "tolerationSeconds": 60}, EXISTS), pod(), 61],
        [],
        ["my-pod"],
    ),
    "evict-pod-partial-toleration": (
        [TWICE, SECOND, claim({**EXISTS, "key": KEY}), pod()],
        [DELETED],
        [],
    ),
    "no-evict-pod-not-scheduled": ([TAINTED, SECOND, claim(), pod(on="")], [], ["my-pod"]),
    "no-evict-no-taint-update": ([PLAIN, claim(), pod(), PLAIN], [], ["my-pod"]),
    "no-evict-pod-resourceclaimtemplate-no-status": (
        [TAINTED, SECOND, claim(), pod(template=True, claims=("other",))],
        [],
        ["my-pod"],
    ),
    "no-evict-pod-resourceclaimtemplate-no-claim": (
        [TAINTED, SECOND, claim(), pod(template=True)],
        [],
        ["my-pod"],
    ),
    "no-evict-other-device": (
        [published(taint(), other="-other"), SECOND, claim(), MADE],
        [],
        ["my-pod"],
    ),
    "no-evict-wrong-pod": ([TAINTED, SECOND, claim(), pod(uid="other")], [], ["other"]),
    "evict-wrong-pod-replaced": (
        [TAINTED, SECOND, claim(), pod(uid="other"), ("remove", pod(uid="other")), pod()],
        [DELETED],
        [],
    ),
    "cancel-eviction-remove-taint": (
        [TAINTED, SECOND, MINUTE, MADE, PLAIN],
        [CANCELLED],
        ["my-pod"],
    ),
    "cancel-eviction-reduce-taint": (
        [TAINTED, SECOND, MINUTE, MADE, published(taint(effect="NoSchedule"))],
        [CANCELLED],
        ["my-pod"],
    ),
    "ignore-none-effect": ([published(taint(effect="None")), claim(), MADE], [], ["my-pod"]),
    "ignore-unknown-effect": ([published(taint(effect="unknown")), claim(), MADE], [], ["my-pod"]),
    "eviction-change-taint": (
        [
            TAINTED,
            SECOND,
            claim({"key": KEY, "value": VALUE, "tolerationSeconds": 3600}),
            MADE,
            published(taint(value=f"{VALUE}-other")),
        ],
        [DELETED],
        [],
    ),
    "cancel-eviction-remove-taint-in-new-slice": (
        [TAINTED, SECOND, MINUTE, MADE, ("remove", TAINTED), published(name="new", generation=2)],
        [CANCELLED],
        ["my-pod"],
    ),
    "cancel-eviction-remove-slice": (
        [TAINTED, SECOND, MINUTE, MADE, ("remove", TAINTED)],
        [CANCELLED],
        ["my-pod"],
    ),
    "cancel-eviction-pod-deletion": (
        [TAINTED, SECOND, MINUTE, pod(), ("remove", pod()), 60],
        [],
        [],
    ),
    "evict-pod-resourceclaim-again": (
        [TAINTED, SECOND, MINUTE, pod(), ("remove", TAINTED), published(taint(), name="new"), 60],
        [CANCELLED, DELETED],
        [],
    ),
    "no-evict-wrong-resourceclaim": ([TAINTED, claim(owner="other"), MADE], [], ["my-pod"]),
    "evict-wrong-resourceclaim-replaced": (
        [TAINTED, SECOND, claim(owner="other"), MADE, claim()],
        [DELETED],
        [],
    ),
    "no-evict-resourceclaim-deallocated": (
        [TAINTED, SECOND, MINUTE, MADE, claim(devices=())],
        [CANCELLED],
        ["my-pod"],
    ),
    "no-evict-resourceclaim-deleted": (
        [TAINTED, SECOND, MINUTE, MADE, ("remove", MINUTE)],
        [CANCELLED],
        ["my-pod"],
    ),
    # Not upstream's: as those of slices, by rules.
    "cancel-eviction-remove-rule": (
        [rule(), MINUTE, pod(), ("remove", rule())],
        [CANCELLED],
        ["my-pod"],
    ),
    "cancel-eviction-other-selector": (
        [rule(), MINUTE, pod(), rule(device="other")],
        [CANCELLED],
        ["my-pod"],
    ),
    "no-evict-rule-without-selector": (
        [
            read({"metadata": metadata("all"), "spec": {"taint": taint()}}, DeviceTaintRule),
            claim(),
            pod(),
        ],
        [],
        ["my-pod"],
    ),
}


def play(cluster: Cluster, steps: list[Any], *, settles: bool = True) -> None:
    for step in steps:
        match step:
            case int() | float():
                cluster.settle()
                cluster.advance(step)
            case "remove", obj:
                cluster.remove(obj)
            case list():
                assert cluster.pods() == step
            case _:
                cluster.put(step)
        if settles:
            cluster.settle()
    cluster.settle()


@pytest.mark.parametrize("name", ROWS)
def test_pods_on_tainted_devices(name: str) -> None:
    steps, events, left = ROWS[name]
    cluster = Cluster()
    play(cluster, steps)
    assert [event.rpartition(": ")[2] for event in cluster.events] == events
    assert cluster.pods() == left


def without_effect(published: int, allocated: int, pods: int, where: str) -> str:
    """Returns the status of a rule without an effect."""

    def count(number: int, noun: str) -> str:
        return f"{number} {noun}{'' if number == 1 else 's'}"

    return (
        f"False NoEffect {count(published, 'published device')} selected. "
        f"{count(allocated, 'allocated device')} selected. "
        f"{count(pods, 'pod')} would be evicted in {where} {SELECTED}"
    )


SELECTED = (
    "if the effect was NoExecute. This information will not be updated again. "
    "Recreate the DeviceTaintRule to trigger an update."
)
FOREIGN = claim(namespace="other", users=("p2",), devices=OTHER, owner="p2")
FOREIGN_POD = pod(uid="p2", namespace="other")
NAMED = claim(name="claim-2", users=("p3",), devices=OTHER, owner="p3")
NAMED_POD = pod("my-pod-3", "p3", claims=("claim-2",))
SHARED = claim(name="claim-2", users=("my-pod", "p3"), devices=OTHER, owner="p3")
BOTH = pod(claims=("claim", "claim-2"))
FIRST, LAST = (
    rule("first", driver="some-driver", device="instance"),
    rule("last", after=40, driver="some-driver", device="instance-no-execute"),
)
TOLERANT = claim({"key": KEY, "value": VALUE, "tolerationSeconds": 3600})
MANY = claim(
    {**EXISTS, "key": KEY, "tolerationSeconds": 60},
    {**EXISTS, "key": f"{KEY}-other", "tolerationSeconds": 30},
)
# The objects, then seconds with the status of each rule at their end, and the number of evictions.
OF_RULES: dict[str, tuple[list[Any], list[tuple[float, dict[str, str]]], int]] = {
    "rule-status": ([rule()], [(0, {"evict": NOT_STARTED})], 0),
    "tainted-claim-through-rule": ([rule(), claim()], [(0, {"evict": NOT_STARTED})], 0),
    "evict-pod-rule": (
        [claim(), pod(), rule()],
        [(0, {"evict": NEEDED}), (9, {"evict": NEEDED}), (1, {"evict": COMPLETED})],
        1,
    ),
    "evict-pod-rule-later": (
        [TOLERANT, pod(), rule()],
        [
            (0, {"evict": NEEDED}),
            (3599, {"evict": NEEDED}),
            (1, {"evict": NEEDED}),
            (10, {"evict": COMPLETED}),
        ],
        1,
    ),
    "evict-many-pods-many-namespaces": (
        [claim(), pod(), FOREIGN, FOREIGN_POD, rule()],
        [
            (
                0,
                {"evict": f"{NEED} 2 different namespaces."},
            ),
            (10, {"evict": "False Completed 2 pods evicted since starting the controller."}),
        ],
        2,
    ),
    "evict-many-pods-same-namespace": (
        [claim(), pod(), NAMED, NAMED_POD, rule()],
        [
            (0, {"evict": f"{NEED} 1 namespace."}),
            (10, {"evict": "False Completed 2 pods evicted since starting the controller."}),
        ],
        2,
    ),
    "none-pod-rule": (
        [PLAIN, claim(), pod(), rule(effect="None")],
        [
            (
                0,
                {"evict": without_effect(3, 1, 1, "1 namespace")},
            )
        ],
        0,
    ),
    "none-many-pods-many-namespaces": (
        [claim(), pod(), FOREIGN, FOREIGN_POD, rule(effect="None")],
        [
            (
                0,
                {"evict": without_effect(0, 3, 2, "2 different namespaces")},
            )
        ],
        0,
    ),
    "none-many-pods-same-namespace": (
        [claim(), pod(), NAMED, NAMED_POD, rule(effect="None")],
        [
            (
                0,
                {"evict": without_effect(0, 3, 2, "1 namespace")},
            )
        ],
        0,
    ),
    "multiple-claims-same-rule": (
        [claim(), SHARED, BOTH, rule()],
        [(0, {"evict": NEEDED}), (10, {"evict": COMPLETED})],
        1,
    ),
    "multiple-claims-different-rules-order-1": (
        [claim(), SHARED, BOTH, FIRST, LAST],
        [(0, {"first": NEEDED, "last": COMPLETED}), (10, {"first": COMPLETED, "last": COMPLETED})],
        1,
    ),
    # Here the pod is judged when its turn comes, not when the first rule was seen.
    "multiple-claims-different-rules-order-2": (
        [claim(), SHARED, BOTH, LAST, FIRST],
        [(0, {"last": NEEDED, "first": COMPLETED}), (10, {"first": COMPLETED, "last": COMPLETED})],
        1,
    ),
    "evict-pod-many-taints": (
        [rule(), rule("evict-other", device="instance"), TWICE, SECOND, MANY, pod()],
        [
            (0, {"evict": NEEDED, "evict-other": NEEDED}),
            (29, {"evict": NEEDED, "evict-other": NEEDED}),
            (1, {"evict": NEEDED, "evict-other": NEEDED}),
            (10, {"evict": COMPLETED, "evict-other": COMPLETED}),
        ],
        1,
    ),
    "other-effect": (
        [rule(effect="NoSchedule"), claim(), pod()],
        [(0, {"evict": "False OtherEffect Eviction only happens for the NoExecute effect."})],
        0,
    ),
}


@pytest.mark.parametrize("name", OF_RULES)
def test_the_status_of_rules(name: str) -> None:
    objects, expected, evictions = OF_RULES[name]
    cluster = Cluster()
    first = next(i for i, obj in enumerate(objects) if isinstance(obj, DeviceTaintRule))
    play(cluster, objects[:first])
    play(cluster, objects[first:], settles=False)
    for seconds, statuses in expected:
        cluster.advance(seconds)
        assert cluster.statuses() == statuses
    assert len(cluster.events) == evictions
    assert all(event.endswith(DELETED) for event in cluster.events)


@pytest.mark.parametrize("seconds", [0, 30])
def test_a_rule_that_takes_effect(seconds: int) -> None:
    """TestDeviceTaintRule: first without an effect, then with one."""
    tolerations = [{"value": VALUE, "tolerationSeconds": seconds}] if seconds else []
    cluster = Cluster()
    play(cluster, [pod(), claim(*tolerations), rule(effect="None")])
    (told,) = cluster.statuses().values()
    assert told == without_effect(0, 1, 1, "1 namespace")
    cluster.advance(20)
    later = rule(after=20)
    renewed = msgspec.structs.replace(later.metadata, generation=2)
    play(cluster, [msgspec.structs.replace(later, metadata=renewed)])
    assert cluster.statuses() == {"evict": NEEDED}
    assert cluster.pods() == ["my-pod"] * bool(seconds)
    cluster.advance(seconds)
    assert cluster.statuses() == {"evict": NEEDED}
    assert cluster.pods() == []
    cluster.advance(10)
    assert cluster.statuses() == {"evict": COMPLETED}
    play(cluster, [("remove", later)])
    assert "DeviceTaintRule" in TYPES
