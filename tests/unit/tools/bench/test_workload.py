"""The format of scheduler_perf's files, and how workloads are chosen and planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.tools.bench.opcodes import (
    CreatePods,
    CreatePodSets,
    CreateResourceDriver,
    Sleep,
    WorkloadError,
    seconds,
)
from berth.tools.bench.workload import WorkloadRun, load, plan, select
from tests.kit.cases import texts

CASES = """
- name: Basic
  labels: [all]
  featureGates: {SchedulerQueueingHints: true}
  defaultPodTemplatePath: pod.yaml
  workloadTemplate:
  - opcode: createNodes
    countParam: $nodes
  - opcode: createPods
    countParam: $pods
    collectMetrics: true
  workloads:
  - name: small
    labels: [short]
    featureGates: {SchedulerAsyncAPICalls: false}
    threshold: 5
    params: {nodes: 2, pods: 3}
  - name: large
    labels: [performance]
    threshold: {misc: 7}
    params: {nodes: 20, pods: 30}
"""


def case(operation: str, params: str = "{}") -> str:
    return f"""
- name: C
  workloadTemplate:
  - {operation}
  workloads:
  - name: w
    params: {params}
"""


def written(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "performance-config.yaml"
    file.write_text(text)
    return file


def planned(folder: Path, text: str) -> WorkloadRun:
    file = written(folder, text)
    ((chosen, workload),) = select(load(file), [], [])
    return plan(file, chosen, workload)


def test_a_workload_is_planned_with_its_parameters(tmp_path: Path) -> None:
    file = written(tmp_path, CASES)
    ((chosen, workload),) = select(load(file), ["Basic/small"], [])
    run = plan(file, chosen, workload)
    assert run.name == "Basic/small"
    assert [getattr(operation, "count", None) for operation in run.operations] == [2, 3]
    assert run.feature_gates == {"SchedulerQueueingHints": True, "SchedulerAsyncAPICalls": False}
    assert (run.default_pod_template, run.threshold, run.folder) == ("pod.yaml", 5, tmp_path)


def test_a_threshold_may_be_configured_for_the_folder(tmp_path: Path) -> None:
    for folder, threshold in (("misc", 7), ("other", 0)):
        file = written(tmp_path / folder, CASES)
        ((chosen, workload),) = select(load(file), ["large"], [])
        assert plan(file, chosen, workload).threshold == threshold


@pytest.mark.parametrize(
    ("names", "labels", "expected"),
    [
        ([], [], ["small", "large"]),
        (["Basic"], [], ["small", "large"]),
        (["Basic/l*"], [], ["large"]),
        (["large", "small"], [], ["small", "large"]),
        (["Other"], [], []),
        ([], ["short"], ["small"]),
        ([], ["all", "+performance"], ["large"]),
        ([], ["-short"], ["large"]),
    ],
)
def test_workloads_are_chosen_by_name_and_label(
    tmp_path: Path, names: list[str], labels: list[str], expected: list[str]
) -> None:
    cases = load(written(tmp_path, CASES))
    assert [workload.name for _, workload in select(cases, names, labels)] == expected


@pytest.mark.parametrize(
    ("operation", "params", "problem"),
    texts(r"""
{opcode: createNodes, cout: 1} => {} => unknown field `cout` - at `\$\[0\].workloadTemplate\[0\]`
{opcode: createBoats} => {} => createBoats.*workloadTemplate\[0\].opcode
{opcode: createNodes, count: many} => {} => Expected `int`.*workloadTemplate\[0\].count
{opcode: createNodes, count: -1} => {} => workloadTemplate\[0\] of C: count: expected 0 or more
{opcode: createNodes, countParam: $n} => {} => countParam: parameter n is not among
{opcode: createNodes, countParam: n} => {n: 1} => countParam: expected \$
{opcode: createNodes, countParam: $n} => {n: few} => params.n: expected a whole number, got 'few'
{opcode: createNodes, countParam: $n} => {n: -2} => count: expected 0 or more
{opcode: createNodes, count: 1} => {n: 1} => C/w: params: n: used by no operation
{opcode: createPods, collectMetrics: true, skipWaitToCompletion: true} => {} => cannot both be true
{opcode: createPods, steadyState: true} => {} => duration: must be given
{opcode: createPods, steadyState: true, duration: 1s} => {} => count: cannot be 0 with steadyState
{opcode: createResourceDriver, nodes: n} => {} => missing required field `driverName`
{opcode: createResourceDriver, driverName: d, nodes: ''} => {} =>
    Expected `str` of length >= 1.*\.nodes
{opcode: createResourceDriver, driverName: d, nodes: n, maxClaimsPerNode: -1} => {} =>
    maxClaimsPerNode: expected 0 or more
{opcode: createResourceDriver, driverName: d, nodes: n, maxClaimsPerNodeParam: $m} => {m: few} =>
    params.m: expected a whole number, got 'few'
{opcode: createResourceClaims, namespace: '', templatePath: c} => {} =>
    Expected `str` of length >= 1.*\.namespace
{opcode: createResourceClaims, namespace: n, templatePath: ''} => {} =>
    Expected `str` of length >= 1.*\.templatePath
{opcode: allocResourceClaims, nodes: n} => {} => unknown field `nodes`
{opcode: churn, mode: recreate, templatePaths: [a]} => {} => number: cannot be 0
{opcode: churn, mode: stir, templatePaths: [a]} => {} => Invalid enum value 'stir'.*\.mode
{opcode: startCollectingMetrics, namespaces: []} => {} => namespaces: cannot be empty
{opcode: barrier, stageRequirement: Bound} => {} => stageRequirement
"""),
)
def test_an_invalid_field_is_refused_by_its_path(
    tmp_path: Path, operation: str, params: str, problem: str
) -> None:
    with pytest.raises(WorkloadError, match=problem) as refused:
        planned(tmp_path, case(operation, params))
    assert str(tmp_path / "performance-config.yaml") in str(refused.value)


@pytest.mark.parametrize("text", ["[", "just text", "- name: C", "{}"])
def test_a_file_that_is_not_a_workload_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(WorkloadError, match="performance-config"):
        load(written(tmp_path, text))
    with pytest.raises(WorkloadError, match="cannot be read"):
        load(tmp_path / "missing.yaml")


def test_parameters_reach_every_field_that_takes_one(tmp_path: Path) -> None:
    run = planned(
        tmp_path,
        case(
            "{opcode: createPods, countParam: $n, countMultiplierParam: $m, steadyStateParam: "
            "$steady, "
            "durationParam: $long, signatureBatchSizeParam: $m, templateParams: {A: $a, B: plain}}",
            "{n: 2, m: 3, steady: true, long: 1m30s, a: 7}",
        ),
    )
    (pods,) = run.operations
    assert isinstance(pods, CreatePods)
    expected = (6, True, "1m30s", 3)
    assert (pods.count, pods.steady_state, pods.duration, pods.signature_batch_size) == expected
    assert pods.template_params == {"A": 7, "B": "plain"}


def test_pod_sets_and_sleeps_take_parameters_too(tmp_path: Path) -> None:
    pods = "{opcode: createPods, countParam: $m}"
    sets = f"{{opcode: createPodSets, countParam: $n, namespacePrefix: p, createPodsOp: {pods}}}"
    (operation,) = planned(tmp_path, case(sets, "{n: 2, m: 3}")).operations
    assert isinstance(operation, CreatePodSets)
    assert (operation.count, operation.create_pods_op.count) == (2, 3)
    (sleep,) = planned(
        tmp_path, case("{opcode: sleep, durationParam: $d}", "{d: 250ms}")
    ).operations
    assert isinstance(sleep, Sleep)
    assert seconds(sleep.duration) == 0.25


def test_a_driver_takes_its_devices_a_node_from_a_parameter(tmp_path: Path) -> None:
    text = "{opcode: createResourceDriver, driverName: d, nodes: 'n-*', maxClaimsPerNodeParam: $m}"
    (driver,) = planned(tmp_path, case(text, "{m: 3}")).operations
    assert driver == CreateResourceDriver(driver_name="d", nodes="n-*", max_claims_per_node=3)


def test_unsupported_operations_are_still_parsed(tmp_path: Path) -> None:
    run = planned(
        tmp_path, case("{opcode: createPodGroups, namespace: d, count: some}", "{unused: 1}")
    )
    assert len(run.operations) == 1


@pytest.mark.parametrize(
    ("text", "expected"), [("90s", 90), ("1h1m1s", 3661), ("1.5s", 1.5), ("20ms", 0.02)]
)
def test_durations(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "3", "1d"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(WorkloadError, match="duration"):
        seconds(text)


def test_every_workload_of_kubernetes_can_be_planned(pytestconfig: pytest.Config) -> None:
    folder = pytestconfig.getoption("scheduler_perf")
    if folder is None:
        pytest.skip("--scheduler-perf names no folder")
    names = set()
    for file in Path(folder).glob("**/performance-config.yaml"):
        for chosen, workload in select(load(file), [], []):
            if chosen.name == "NodeDeclaredFeaturesEnabled":
                # Kubernetes' own file has a parameter that no operation uses; scheduler_perf
                # refuses it too.
                with pytest.raises(
                    WorkloadError, match="numNodeDeclaredFeatures: used by no operation"
                ):
                    plan(file, chosen, workload)
            else:
                names.add(plan(file, chosen, workload).name)
    assert {
        "SchedulingBasic/5000Nodes_10000Pods",
        "EventHandlingPodDelete/50Nodes_500Pods",
        "SteadyStateClusterResourceClaimTemplate/full_500nodes",
        "ExtendedResourceScoring/5000pods_500nodes",
    } <= names
