"""Files of stages: what replaces what, and errors that name the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.tools.cluster.kubelets.stage_files import read_stages
from berth.tools.kubernetes.kubelet.stages.stage import StageError

STAGE = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: %s}
spec:
  resourceRef: {apiGroup: v1, kind: %s}
  next: {delete: true}
"""


def write(file: Path, *stages: tuple[str, str]) -> Path:
    file.write_text("---".join(STAGE % stage for stage in stages))
    return file


def test_the_shipped_stages_are_read() -> None:
    stages = read_stages()
    assert {stage.name for stage in stages.pods} >= {"pod-ready", "pod-complete", "pod-delete"}
    assert {stage.name for stage in stages.nodes} >= {"node-initialize", "node-heartbeat"}
    assert (stages.added, stages.replaced) == ((), ())


def test_the_shipped_stages_are_read_once() -> None:
    first, again = read_stages(), read_stages()
    assert all(one is two for one, two in zip(first.pods, again.pods, strict=True))


def test_a_stage_replaces_the_shipped_one_of_its_name(tmp_path: Path) -> None:
    first = write(tmp_path / "a.yaml", ("pod-delete", "Pod"), ("node-odd", "Node"))
    second = write(tmp_path / "b.yaml", ("pod-odd", "Pod"))
    stages = read_stages([first, second])
    assert stages.replaced == ("pod-delete",)
    assert stages.added == ("node-odd", "pod-odd")
    names = [stage.name for stage in stages.pods]
    assert names == list(dict.fromkeys(names))
    assert len(names) == len(read_stages().pods) + 1


def test_a_folder_may_have_other_files(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    write(tmp_path / "below/a.yaml", ("pod-odd", "Pod"))
    (tmp_path / "kustomization.yaml").write_text("kind: Kustomization\nresources: [a.yaml]\n")
    (tmp_path / "list.yaml").write_text("- 1\n")
    assert read_stages([tmp_path]).added == ("pod-odd",)


def test_lists_of_stages_are_split(tmp_path: Path) -> None:
    item = STAGE % ("pod-odd", "Pod")
    indented = "".join(f"  {line}\n" for line in item.strip().splitlines())
    file = tmp_path / "list.yaml"
    file.write_text(f"apiVersion: v1\nkind: List\nitems:\n-{indented[1:]}")
    assert read_stages([file]).added == ("pod-odd",)


def test_errors_name_the_file(tmp_path: Path) -> None:
    twice = write(tmp_path / "twice.yaml", ("pod-odd", "Pod"), ("pod-odd", "Pod"))
    wrong = write(tmp_path / "wrong.yaml", ("pod-odd", "Job"))
    pod = tmp_path / "pod.yaml"
    pod.write_text("apiVersion: v1\nkind: Pod\n")
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [")
    empty = tmp_path / "empty"
    empty.mkdir()
    for path, problem in (
        (twice, "Stage pod-odd: expected one stage of this name"),
        (wrong, "document 1: Stage pod-odd: spec.resourceRef: expected Node or Pod of v1"),
        (pod, "document 1: expected a Stage of kwok.x-k8s.io/v1alpha1, got Pod of v1"),
        (broken, "line 2: "),
        (empty, "expected a folder with stages"),
        (tmp_path / "absent.yaml", "cannot be read: No such file or directory"),
    ):
        with pytest.raises(StageError) as caught:
            read_stages([path])
        assert str(caught.value).startswith(str(path))
        assert problem in str(caught.value)
