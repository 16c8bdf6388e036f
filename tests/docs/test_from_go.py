"""The names on the page for authors of plugins in Go exist."""

from __future__ import annotations

import inspect
import re
from types import ModuleType

import pytest

import berth.plugin
import berth.testing
from tests.docs.blocks import ROOT

PAGE = ROOT / "docs/from-go.md"
ROW = re.compile(r"^\| [^|]* \| ([^|]*) \|", re.MULTILINE)
SPAN = re.compile(r"`([A-Za-z_.]+)`")
# What scheduler-plugins registers in cmd/scheduler/main.go, with the sample that is commented out
# there.
REGISTERED = (
    *("CapacityScheduling", "Coscheduling", "LoadVariationRiskBalancing", "NetworkOverhead"),
    *("TopologicalSort", "NodeMetadata", "NodeResourcesAllocatable", "NodeResourceTopologyMatch"),
    *("PreemptionToleration", "TargetLoadPacking", "LowRiskOverCommitment", "SySched", "Peaks"),
    *("CrossNodePreemption", "PodState", "QOSSort"),
)
# What plugins in Go get and implement, from k8s.io/kube-scheduler/framework.
INTERFACES = (
    *(
        "PreEnqueuePlugin",
        "QueueSortPlugin",
        "EnqueueExtensions",
        "PreFilterPlugin",
        "FilterPlugin",
    ),
    *("PreFilterExtensions", "AddPod", "RemovePod", "PostFilterPlugin", "PreScorePlugin"),
    *("ScorePlugin", "ScoreExtensions", "ReservePlugin", "PermitPlugin", "PreBindPlugin"),
    *("BindPlugin", "PostBindPlugin", "SignPlugin", "PlacementGeneratePlugin"),
    *("PlacementScorePlugin", "PreFilterResult", "PostFilterResult", "NodeToStatusReader"),
    *("NodeScoreList", "NominatingInfo", "PreBindPreFlight", "CycleState", "StateKey", "StateData"),
    *("PodNominator", "PluginsRunner", "PodActivator", "SnapshotSharedLister", "NodeInfos"),
    *("IterateOverWaitingPods", "GetWaitingPod", "RejectWaitingPod", "GetPodInPreBind"),
    *("ClientSet", "KubeConfig", "EventRecorder", "SharedInformerFactory", "SharedDRAManager"),
    *("SharedCSIManager", "RunFilterPluginsWithNominatedPods", "Extenders", "Parallelizer"),
    *("APIDispatcher", "APICacher", "ProfileName", "PodGroupManager", "SignPod"),
    *("NominatedPodsForNode", "AddNominatedPod", "DeleteNominatedPodIfExists"),
    *("RunFilterPlugins", "RunPreScorePlugins", "RunScorePlugins", "RunPreFilterExtensionAddPod"),
    *("GetPods", "GetRequested", "GetAllocatable", "GetUsedPorts", "GetNonZeroRequested"),
    *("GetImageStates", "GetPVCRefCounts", "GetGeneration", "StorageInfos", "CalculateResource"),
    *("GetRequiredAffinityTerms", "QueuedPodInfo", "GetUnschedulablePlugins", "ClusterEvent"),
    *("ActionType", "EventResource", "QueueingHintFn", "WaitingPod", "GetPendingPlugins"),
)
ELSEWHERE = {"berth.plugins", "berth.testing"}


def names() -> list[tuple[ModuleType, str]]:
    found = []
    for section in PAGE.read_text().split("\n## ")[1:]:
        module = berth.testing if section.startswith("Tests\n") else berth.plugin
        cells = ROW.findall(section)
        found += [(module, name) for cell in cells for name in SPAN.findall(cell)]
    return [(module, name) for module, name in found if name not in ELSEWHERE]


@pytest.mark.parametrize(("module", "name"), names())
def test_a_name_exists(module: ModuleType, name: str) -> None:
    first, *others = name.split(".")
    assert first in module.__all__
    found = getattr(module, first)
    for other in others:
        made_of = inspect.signature(found).parameters if inspect.isclass(found) else ()
        known = {*dir(found), *made_of, *getattr(found, "__annotations__", {})}
        assert other in known, name
        found = getattr(found, other, None)


def test_every_extension_point_has_a_row() -> None:
    told = {name.partition(".")[0] for _, name in names()}
    points = {name for name in berth.plugin.__all__ if name.endswith("Plugin")}
    assert points - told == {"PreparingPlugin"}  # Go has none


def test_every_plugin_of_scheduler_plugins_has_a_row() -> None:
    _, table = PAGE.read_text().split("## The plugins of scheduler-plugins")
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
    assert [name for name in REGISTERED if not any(name in cell for cell in first)] == []


def test_every_interface_of_plugins_in_go_is_named() -> None:
    page = PAGE.read_text()
    assert [name for name in INTERFACES if not re.search(rf"\b{name}\b", page)] == []
