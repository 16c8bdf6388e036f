"""The codes of reasons: each reason that the code can give has one, with its fields."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from berth.actors.scheduling.decision import failures
from berth.actors.scheduling.framework.questions import EXTENDER
from berth.actors.scheduling.kube.claims import not_found, not_made_for
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.plugins.dynamic_resources.allocator import UnreadyPool
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.tools.answers.explain.cause import COMMON, Cause
from berth.tools.answers.explain.last_attempt import binding_failure
from berth.tools.answers.explain.pinned_pods import claims_without_node, waits_for_volume
from berth.tools.answers.explain.reasons.cause_search import cause_of, causes_of, standing_causes
from berth.tools.answers.explain.reasons.pod_causes import preemption_causes, summary
from berth.tools.answers.explain.reasons.reason_table import REASONS, REJECTED, ReasonRow
from berth.tools.answers.explain.subject import standing
from berth.tools.kubernetes.objects.structs import read
from berth.tools.views.commands.explain import explain
from tests.docs.blocks import ROOT
from tests.kit.documents import thing
from tests.unit.tools.answers.explain.test_reasons import (
    NO_REJECTIONS,
    TRIED,
    Case,
    reasons_in_the_code,
    text_of,
)

GIVEN = sorted({*filter(None, reasons_in_the_code())} | NO_REJECTIONS)
# Messages that begin with the name of a kind, the rest of which another function adds.
NOT_FOUND = ("persistentvolumeclaim", "persistentvolume", "storageclass.storage.k8s.io")
ZONE = {"label": "zone"}
OF_N1 = {"allocatable": "4", "free": "4"}
# The code of each reason that a case of the other table gives, and its fields.
CODES: dict[str, dict[str, Any]] = {
    "Insufficient {}": {
        "code": "InsufficientResource",
        "resource": "cpu",
        "requested": "9",
        "shortage": "5",
        **OF_N1,
    },
    "Too many pods": {"code": "TooManyPods", "allocatable": "1"},
    "node(s) were unschedulable": {"code": "NodeUnschedulable"},
    "node(s) had untolerated taint(s)": {
        "code": "UntoleratedTaint",
        "taint": {"key": "k", "value": "", "effect": "NoSchedule"},
    },
    "node(s) didn't match Pod's node affinity/selector": {
        "code": "NodeSelectorMismatch",
        "requirement": {"key": "zone", "operator": "In", "values": ["b"]},
    },
    "pod affinity terms conflict": {"code": "NodeAffinityConflict"},
    "node(s) didn't have free ports for the requested pod ports": {
        "code": "PortTaken",
        "port": 80,
        "protocol": "TCP",
        "pod": "default/db",
    },
    "node(s) didn't match pod affinity rules": {"code": "PodAffinityUnmet", **ZONE},
    "node(s) didn't match pod anti-affinity rules": {
        "code": "AntiAffinityViolated",
        "pod": "default/db",
        **ZONE,
    },
    "node(s) didn't satisfy existing pods anti-affinity rules": {
        "code": "ExistingAntiAffinityViolated",
        "pod": "default/db",
    },
    "node(s) didn't match pod topology spread constraints": {
        "code": "TopologySpreadViolated",
        "constraints": [{"topologyKey": "zone", "maxSkew": 1}],
    },
    "node(s) didn't match pod topology spread constraints (missing required label)": {
        "code": "TopologyLabelMissing",
        "label": "rack",
        "constraints": [{"topologyKey": "rack", "maxSkew": 1}],
    },
    "node(s) didn't match Pod's required features": {
        "code": "NodeFeatureMissing",
        "features": ["RestartAllContainersOnContainerExits"],
    },
    "node(s) had no available disk": {"code": "DiskInUse"},
    (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod"
    ): {"code": "ClaimInUse", "claim": "data"},
    "node(s) had no available volume zone": {"code": "VolumeZoneConflict", "claim": "data"},
    "node(s) exceed max volume count": {"code": "TooManyVolumes", "driver": "d.example.com"},
    "node(s) didn't match PersistentVolume's node affinity": {
        "code": "VolumeNodeAffinityConflict",
        "claim": "data",
    },
    "node(s) didn't find available persistent volumes to bind": {
        "code": "NoVolumeToBind",
        "claim": "data",
    },
    "node(s) did not have enough free storage": {"code": "InsufficientStorage", "claim": "data"},
    "cannot allocate all claims": {"code": "DeviceShortage", "claim": "gpu", "request": "r"},
    "invalid resource pools were encountered": {"code": "DevicePoolInvalid"},
    "resourceclaim not available on the node": {"code": "DeviceClaimElsewhere", "claim": "gpu"},
    "pod has unbound immediate PersistentVolumeClaims": {
        "code": "ClaimUnbound",
        "claims": ["data"],
    },
    "persistentvolumeclaim": {"code": "ClaimMissing", "claim": "data"},
    "persistentvolume": {"code": "VolumeMissing", "volume": "pv"},
    'persistentvolumeclaim "{}" is being deleted': {"code": "ClaimTerminating", "claim": "data"},
    "waiting for scheduling gates: [{}]": {
        "code": "SchedulingGated",
        "gates": ["example.com/quota"],
    },
    "request {}: device class {} does not exist": {
        "code": "DeviceClassMissing",
        "request": "r",
        "deviceClass": "gpus",
    },
    'could not find ResourceClaim "{}/{}"': {"code": "DeviceClaimMissing", "claim": "gpu"},
    'resourceclaim "{}" is being deleted': {"code": "DeviceClaimTerminating", "claim": "gpu"},
}


def explained(case: Any) -> dict[str, Any]:
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}, spec: {SPEC}}"
    text = f"{case.cluster}---\n{pod.replace('SPEC', case.spec)}\n"
    options = case.options.split() if isinstance(case, Case) else []
    result = CliRunner().invoke(explain, ["-f", "-", "web", "-o", "json", *options], input=text)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.output)
    return document


@pytest.mark.parametrize("row", REASONS, ids=lambda row: row.code)
def test_a_row_is_whole(row: ReasonRow) -> None:
    assert re.fullmatch(r"([A-Z][a-z]+)+", row.code)
    assert sum(other.code == row.code for other in REASONS) == 1
    assert set(row.fields) <= set(Cause.__struct_fields__) - set(COMMON)
    assert re.fullmatch(r"[A-Z`].*\.", row.meaning)


@pytest.mark.parametrize("reason", GIVEN)
def test_each_reason_in_the_code_has_a_code(reason: str) -> None:
    whole = f'{reason} "x" not found' if reason in NOT_FOUND else reason.replace("{}", "a/x")
    assert cause_of("", whole).code != REJECTED


@pytest.mark.parametrize("reason", TRIED)
def test_a_plugin_that_rejects_a_pod_is_answered_with_the_code(reason: str) -> None:
    document = explained(TRIED[reason])
    causes = [c for c in document["causes"] if not c["code"].startswith(("Preempt", "Nothing"))]
    first = causes[0]
    assert {k: v for k, v in first.items() if k not in COMMON or k == "code"} == CODES[reason]
    row = next(row for row in REASONS if row.code == first["code"])
    assert first.get("plugin", "SchedulingGates") in row.plugins
    for verdict in filter(None, [*document["filter"].values(), document["prefilter"]]):
        assert [cause["message"] for cause in verdict.get("causes", [])] == verdict["reasons"]
    assert all(cause["code"] != REJECTED for cause in document["causes"])


def test_messages_that_are_put_together_have_a_code() -> None:
    pool = UnreadyPool(0, "r", "p", incomplete=True, detail="")
    given = {
        not_made_for(read(thing("Pod", "p", spec={}), Pod), "data"): "ClaimOfOtherPod",
        pool.message("default/gpu"): "DevicePoolInvalid",
        f"looking up PVC default/data: {not_found('persistentvolumeclaim', 'data')}": (
            "ClaimMissing"
        ),
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"': (
            "ClaimMissing"
        ),
        "rejected due to timeout after waiting 15s at plugin Coscheduling": "PermitTimeout",
    }
    assert {text: cause_of("", text).code for text in given} == given


def test_every_plugin_that_filters_gives_reasons_of_the_table() -> None:
    plugins = {plugin for row in REASONS for plugin in row.plugins}
    filtering = {name for name, plugin in IN_TREE.items() if hasattr(plugin, "filter")}
    assert filtering <= plugins


def test_an_error_at_each_extension_point_has_a_code() -> None:
    points = [each for each in vars(failures).values() if isinstance(each, failures.Point)]
    assert points
    for point in points:
        cause = cause_of("", f"{point.failed.format('Mine')}it broke")
        assert (cause.code, cause.plugin) == ("AttemptFailed", "Mine"), point


def departures() -> Iterator[str]:
    """Yields the reasons for which the steps of a what-if evict pods."""
    for path in sorted((ROOT / "tools/answers/whatif").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(getattr(node, "func", None), "attr", "")
            if isinstance(node, ast.Call) and name == "evict" and len(node.args) == 2:
                yield text_of(node.args[1])


def test_each_departure_of_a_what_if_has_a_code() -> None:
    reasons = [*departures()]
    assert len(reasons) >= 5
    assert all(reasons)
    for reason in reasons:
        whole = reason.replace("{}", "x", 1).replace("{}", ", x")
        assert cause_of("", whole).code != REJECTED, reason


def claim(name: str) -> dict[str, Any]:
    return thing("PersistentVolumeClaim", name, spec={"storageClassName": "late"})


def test_what_holds_a_pod_has_a_code() -> None:
    late = {"kind": "StorageClass", "metadata": {"name": "late"}}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    pinned = thing("Pod", "p", spec={"nodeName": "n", "volumes": volumes})
    held = [
        *standing(thing("Pod", "p", spec={"schedulingGates": [{"name": "a"}, {"name": "b"}]})),
        *standing(thing("Pod", "p", spec={"nodeName": "n"}, status={"phase": "Running"})),
        *standing(thing("Pod", "p", spec={"nodeName": "n"}), ["m"]),
        *standing(thing("Pod", "p", spec={}, status={"phase": "Failed"})),
        *standing(thing("Pod", "p", spec={}, status={"nominatedNodeName": "n"})),
        waits_for_volume(["a"]),
        waits_for_volume(["a", "b"]),
        *claims_without_node(
            pinned, [{**late, "volumeBindingMode": "WaitForFirstConsumer"}, claim("data")]
        ),
        binding_failure(
            {"status": {"conditions": [condition("running PreBind plugin x: it broke")]}}
        ),
        "is kept out of the queue by the plugin Quota: no quota: 3 left",
    ]
    causes = standing_causes(held)
    assert [cause.message for cause in causes[:-1]] == held[:-1]
    assert [(cause.code, cause.node, cause.claims) for cause in causes] == [
        ("SchedulingGated", "", ()),
        ("PodPlaced", "n", ()),
        ("PodPlaced", "n", ()),
        ("PodEnded", "", ()),
        ("PreemptionAwaited", "n", ()),
        ("VolumeNeverMade", "", ("a",)),
        ("VolumeNeverMade", "", ("a", "b")),
        ("VolumeNeverMade", "", ("data",)),
        ("AttemptFailed", "", ()),
        (REJECTED, "", ()),
    ]
    assert causes[0].gates == ("a", "b")
    assert (causes[-1].plugin, causes[-1].message) == ("Quota", "no quota: 3 left")


def condition(message: str) -> dict[str, str]:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulerError",
        "message": message,
    }


def test_plugins_of_packages_and_extenders_have_a_code_each() -> None:
    assert cause_of("Mine", "Insufficient love") == Cause(REJECTED, "Insufficient love", "Mine")
    assert cause_of(EXTENDER, "full").code == "ExtenderRejected"
    assert causes_of(EXTENDER, []) == [Cause("ExtenderRejected", "", EXTENDER)]


def test_preemption_has_a_code_for_each_kind_of_node() -> None:
    text = "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, "
    causes = preemption_causes(f"{text}2 Preemption is not helpful for scheduling.")
    assert [(cause.code, cause.nodes) for cause in causes] == [
        ("NoPreemptionVictims", 1),
        ("PreemptionNotHelpful", 2),
    ]
    (never,) = preemption_causes("preemption: not eligible due to preemptionPolicy=Never.")
    assert never.code == "PreemptionNever"
    made_room = "preemption: found a potential placement for pod on node n-1, preempting 2 victims"
    (awaited,) = preemption_causes(made_room)  # as Kubernetes says since 1.37
    assert (awaited.code, awaited.node) == ("PreemptionAwaited", "n-1")


def test_a_summary_has_each_cause_once_with_the_closest_node() -> None:
    def lacks(resource: str, shortage: str) -> Cause:
        message = f"Insufficient {resource}"
        code = "InsufficientResource"
        return Cause(code, message, nodes=1, resource=resource, shortage=shortage)

    causes = summary([lacks("cpu", "2"), lacks("cpu", "500m"), lacks("memory", "1Gi")])
    assert [(of.resource, of.shortage, of.nodes) for of in causes] == [
        ("cpu", "500m", 2),
        ("memory", "1Gi", 1),
    ]
