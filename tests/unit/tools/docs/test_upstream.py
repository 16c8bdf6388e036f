"""What a checkout of Kubernetes has and berth's tables have not."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from berth.config.feature_gates import Gate, gates_of
from berth.config.versions import VERSIONS
from berth.tools.docs.upstream import (
    field_differences,
    gate_differences,
    main,
    metric_differences,
    read_fields,
    read_gates,
    read_metrics,
)

V36, V37, V38 = VERSIONS[36], VERSIONS[37], VERSIONS[38]
GATES = """
const (
\t// Named otherwise in the code.
\tCPUCFSQuotaPeriod featuregate.Feature = "CustomCPUCFSQuotaPeriod"
\tPlain Feature = "Plain"
)
\tCPUCFSQuotaPeriod: {
\t\t{Version: version.MustParse("1.12"), Default: false, PreRelease: featuregate.Alpha},
\t\t// It was on for long.
\t\t{Version: version.MustParse("1.37"), Default: true, PreRelease: featuregate.GA, LockToDefault: true}, // remove in 1.40
\t},
\t\tgenericfeatures.Plain: {
\t\t\t{Version: version.MajorMinor(1, 36), Default: true, PreRelease: Beta},
\t\t},
\tFractions: {
\t\t{Version: version.MustParse("1.37"), Default: false, PreRelease: featuregate.Beta},
\t\t{Version: version.MustParse("1.37"), Default: true, PreRelease: featuregate.Beta, MinCompatibilityVersion: version.MustParse("1.37")},
\t},
\tLater: {
\t\t{Version: version.MustParse("1.38"), Default: false, PreRelease: featuregate.Alpha},
\t},
"""  # noqa: E501 # as in the source
METRICS = """
\tattempts = metrics.NewCounterVec(
\t\t&metrics.CounterOpts{
\t\t\tSubsystem:      SchedulerSubsystem,
\t\t\tName:           "schedule_attempts_total",
\t\t\tStabilityLevel: metrics.STABLE,
\t\t}, []string{"result", "profile"})
\tvictims = metrics.NewHistogram(
\t\t&metrics.HistogramOpts{
\t\t\tSubsystem:      SchedulerSubsystem,
\t\t\tName:           "preemption_victims",
\t\t\tBuckets:        metrics.ExponentialBuckets(1, 2, 7),
\t\t\tStabilityLevel: metrics.ALPHA,
\t\t})
"""
PROTO = """
message ConfigMapKeySelector {
  // The part that JSON has not.
  optional LocalObjectReference localObjectReference = 1;

  optional string key = 2;
  map<string, string> labels = 11;
}
message Container {
  repeated .k8s.io.Port ports = 6;
}
"""


def test_the_gates_of_a_source_at_a_version() -> None:
    assert read_gates({"": GATES}, V36) == {
        "CustomCPUCFSQuotaPeriod": Gate("CustomCPUCFSQuotaPeriod", "ALPHA", False),
        "Plain": Gate("Plain", "BETA", True),
    }
    at_37 = read_gates({"": GATES}, V37)["CustomCPUCFSQuotaPeriod"]
    assert (at_37.stage, at_37.default, at_37.locked) == ("GA", True, True)
    defaults = [read_gates({"": GATES}, version)["Fractions"].default for version in (V37, V38)]
    assert defaults == [False, True]


def test_gates_that_differ() -> None:
    theirs = dict(gates_of(V36))
    assert [*gate_differences(theirs, V36)] == []
    theirs["New"] = Gate("New", "ALPHA", False)
    theirs["WatchList"] = Gate("WatchList", "GA", True, locked=True)
    del theirs["AtomicFIFO"]
    assert [*gate_differences(theirs, V36)] == [
        "gate AtomicFIFO: not upstream; in the table BETA true",
        "gate New: not in the table; upstream ALPHA false",
        "gate WatchList: BETA true; upstream GA true locked",
    ]


def test_metrics_that_differ() -> None:
    theirs = read_metrics(METRICS)
    assert theirs == {
        "scheduler_schedule_attempts_total": "STABLE {profile,result}",
        "scheduler_preemption_victims": "ALPHA {}",
    }
    lines = [*metric_differences(theirs, V36)]
    assert "metric scheduler_preemption_victims: STABLE {}; upstream ALPHA {}" in lines
    assert "metric scheduler_pending_pods: STABLE {queue}; upstream not there" in lines
    assert not any("schedule_attempts_total" in line for line in lines)
    assert all(line.startswith("metric scheduler_") for line in lines)


def test_fields_that_differ(tmp_path: Path) -> None:
    assert read_fields(PROTO)["Container"] == {"ports": 6}
    file = tmp_path / "staging/src/k8s.io/api/core/v1/generated.proto"
    file.parent.mkdir(parents=True)
    file.write_text(PROTO)
    lines = [line for line in field_differences(tmp_path, V36) if "core/v1" in line]
    assert lines == ["type core/v1 ConfigMapKeySelector: upstream has the field labels=11"]
    file.write_text(PROTO.replace("labels = 11", "name = 9").replace("key = 2", "key = 3"))
    lines = [line for line in field_differences(tmp_path, V36) if "core/v1" in line]
    assert "type core/v1 ConfigMapKeySelector: key has the number 3 upstream" in lines
    file.write_text(PROTO.replace("key = 2", "keys = 2"))
    lines = [line for line in field_differences(tmp_path, V36) if "core/v1" in line]
    assert "type core/v1 ConfigMapKeySelector: upstream has the field keys=2" in lines


def test_kinds_of_other_servers_are_described_in_their_own_folders(tmp_path: Path) -> None:
    for server, group in (
        ("apiextensions-apiserver", "apiextensions"),
        ("kube-aggregator", "apiregistration"),
    ):
        missing = f"types of {group}.k8s.io/v1: upstream does not serve them"
        assert missing in field_differences(tmp_path, V36)
        file = tmp_path / f"staging/src/k8s.io/{server}/pkg/apis/{group}/v1/generated.proto"
        file.parent.mkdir(parents=True)
        file.write_text(PROTO)
        assert missing not in field_differences(tmp_path, V36)


def test_fields_of_schemas_have_other_names_in_protobuf(tmp_path: Path) -> None:
    folder = "staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
    file = tmp_path / folder / "generated.proto"
    file.parent.mkdir(parents=True)
    fields = ("string ref = 3", "bool xKubernetesEmbeddedResource = 39", "JSON items = 24")
    lines = "".join(f"  optional {field};\n" for field in fields)
    file.write_text(f"message JSONSchemaProps {{\n{lines}}}\n")
    assert [line for line in field_differences(tmp_path, V36) if "JSONSchemaProps" in line] == []
    file.write_text(f"message JSONSchemaProps {{\n{lines.replace('24', '25')}}}\n")
    (line,) = [line for line in field_differences(tmp_path, V36) if "JSONSchemaProps" in line]
    assert line.endswith("JSONSchemaProps: items has the number 25 upstream")


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_the_command_counts_the_differences(tmp_path: Path, version: str) -> None:
    result = CliRunner().invoke(main, [str(tmp_path), "--version", version])
    assert result.exit_code == 1
    assert f"differences from Kubernetes {version}" in result.stderr
