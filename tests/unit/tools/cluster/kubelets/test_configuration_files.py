"""KubeletConfiguration files."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.tools.cluster.kubelets.configuration_files import (
    ConfigurationError,
    read_configurations,
)
from berth.tools.kubernetes.kubelet.pressure.kubelet_settings import (
    DEFAULTS,
    Settings,
    settings_for,
)
from berth.tools.kubernetes.kubelet.pressure.thresholds import Amount, Threshold

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def settings(tmp_path: Path, text: str, **labels: str) -> Settings:
    file = tmp_path / "kubelet.yaml"
    file.write_text(text)
    return settings_for(labels, read_configurations(file))


def signals(settings_: Settings) -> dict[str, str]:
    return {t.signal: t.value.quantity or f"{t.value.share:.0%}" for t in settings_.thresholds}


BY_DEFAULT = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
    "allocatableMemory.available": "100Mi",
}


def test_a_document_without_fields_has_the_defaults(tmp_path: Path) -> None:
    assert settings(tmp_path, HEAD) == DEFAULTS
    assert signals(DEFAULTS) == BY_DEFAULT
    assert (DEFAULTS.transition, DEFAULTS.most_grace, DEFAULTS.most_pods) == (300.0, 0, None)


def test_all_fields_are_read(tmp_path: Path) -> None:
    text = """
evictionHard: {memory.available: 1Gi}
evictionSoft: {memory.available: 10%}
evictionSoftGracePeriod: {memory.available: 1m30s}
evictionMinimumReclaim: {memory.available: 500Mi}
evictionPressureTransitionPeriod: 30s
evictionMaxPodGracePeriod: 60
maxPods: 20
localStorageCapacityIsolation: false
cgroupDriver: systemd
featureGates: {SomeGate: true}
"""
    read = settings(tmp_path, HEAD + text)
    hard, soft, pods = read.thresholds
    assert hard == Threshold("memory.available", Amount("1Gi"), 0, Amount("500Mi"))
    assert (soft.grace, soft.min_reclaim) == (90.0, Amount("500Mi"))
    assert pods.signal == "allocatableMemory.available"
    assert (read.transition, read.most_grace, read.most_pods) == (30.0, 60, 20)
    assert not read.isolates_storage


def test_static_pods_and_static_managers_are_read(tmp_path: Path) -> None:
    text = f"{HEAD}staticPodPath: .\ncpuManagerPolicy: static\nmemoryManagerPolicy: None"
    read = settings(tmp_path, text)
    assert (read.static_pods, read.file_check) == (str(tmp_path), 20.0)
    assert read.static_managers == ("cpu",)
    assert settings(tmp_path, f"{HEAD}memoryManagerPolicy: Static").static_managers == ("memory",)


def test_hard_thresholds_replace_the_defaults_unless_they_are_merged(tmp_path: Path) -> None:
    hard = "evictionHard: {nodefs.available: 1Gi}\n"
    assert signals(settings(tmp_path, HEAD + hard)) == {"nodefs.available": "1Gi"}
    both = settings(tmp_path, f"{HEAD}{hard}mergeDefaultEvictionSettings: true\n")
    assert signals(both) == {**BY_DEFAULT, "nodefs.available": "1Gi"}
    assert signals(settings(tmp_path, f"{HEAD}evictionHard: {{}}\n")) == {}


def test_the_last_document_that_selects_a_node_counts(tmp_path: Path) -> None:
    small = 'metadata: {annotations: {berth.dev/node-selector: "pool in (small, tiny)"}}\n'
    text = f"{HEAD}maxPods: 50\n---\n{HEAD}{small}maxPods: 5\n"
    assert settings(tmp_path, text, pool="tiny").most_pods == 5
    assert settings(tmp_path, text, pool="large").most_pods == 50
    assert settings(tmp_path, HEAD + small, pool="large") == DEFAULTS


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "kubelet.yaml: expected a KubeletConfiguration, got nothing"),
        ("[]", "kubelet.yaml: expected a mapping"),
        ("a: [", "kubelet.yaml: line 2: "),
        ("kind: KubeletConfiguration", "apiVersion: expected kubelet.config.k8s.io/v1beta1"),
        (f"{HEAD}evictionhard: {{}}", "unknown field, did you mean evictionHard?"),
        (f"{HEAD}evictionHard: 5", "evictionHard: expected a mapping"),
        (
            f"{HEAD}evictionHard: {{memory.available: 5}}",
            "evictionHard[memory.available]: expected",
        ),
        (
            f"{HEAD}evictionHard: {{mem.available: 5Gi}}",
            "evictionHard[mem.available]: expected a s",
        ),
        (f"{HEAD}evictionSoft: {{nodefs.available: 5Gi}}", "evictionSoftGracePeriod[nodefs.avail"),
        (f"{HEAD}staticPodPath: none", "staticPodPath: expected a folder or a file, got"),
        (f"{HEAD}staticPodPath: /dev/zero", "staticPodPath: expected a folder or a file, got"),
        (f"{HEAD}fileCheckFrequency: -1s", "fileCheckFrequency: expected at least 0"),
        (f"{HEAD}fileCheckFrequency: 1ns", "fileCheckFrequency: expected at least 100ms"),
        (f"{HEAD}cpuManagerPolicy: dynamic", "cpuManagerPolicy: expected"),
        (f"{HEAD}maxPods: -1", "maxPods: expected a number of at least 0, got -1"),
        (f"{HEAD}evictionPressureTransitionPeriod: soon", "evictionPressureTransitionPeriod: exp"),
        (f"{HEAD}evictionPressureTransitionPeriod: -1s", "evictionPressureTransitionPeriod: exp"),
        (
            f"{HEAD}metadata: {{annotations: {{berth.dev/node-selector: '='}}}}",
            "metadata.annotations[berth.dev/node-selector]: ",
        ),
        (
            f"{HEAD}metadata: {{annotations: {{berth.dev/node-selector: 5}}}}",
            "metadata.annotations[berth.dev/node-selector]: expected text",
        ),
        *(
            (
                f"{HEAD}{field}: {{memory.available: '{share}'}}",
                f"{field}[memory.available]: expected a percentage such as 10%",
            )
            for field in ("evictionHard", "evictionMinimumReclaim")
            for share in ("nan%", "inf%", "1_0%", " 5%", "%")
        ),
        (f"{HEAD}---\n{HEAD}maxPods: x", "kubelet.yaml, document 2: maxPods: expected an integer"),
    ],
)
def test_an_error_names_the_file_and_the_field(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        settings(tmp_path, text)
    assert problem in str(raised.value)
