"""Scenario files: what pods use by their labels and namespaces."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from berth.tools.cluster.kubelets.scenario_files import ScenarioError, read_scenario
from berth.tools.kubernetes.kubelet.usage_models import usage_of
from berth.tools.kubernetes.objects.structs import Pod, read

START = datetime(2026, 1, 1, tzinfo=UTC)
FILE = """
seed: 7
usage:
- {selector: {matchLabels: {app: web}}, namespaces: [shop], uses: memory=1+10/s}
- selector: {matchExpressions: [{key: app, operator: In, values: [worker]}]}
  model: models_of_usage:worker
- uses: memory=3
"""


def memory(file: Path, app: str, namespace: str) -> int:
    running = {"name": "c", "state": {"running": {"startedAt": START.isoformat()}}}
    document = {
        "metadata": {"name": "p", "namespace": namespace, "labels": {"app": app}},
        "spec": {"containers": [{"name": "c"}]},
        "status": {"startTime": START.isoformat(), "containerStatuses": [running]},
    }
    pod = read(document, Pod)
    used = usage_of(pod, START + timedelta(seconds=5), read_scenario(file))
    assert used is not None
    return used.memory


def test_the_first_entry_that_concerns_a_pod_counts(tmp_path: Path) -> None:
    file = tmp_path / "usage.yaml"
    file.write_text(FILE)
    module = tmp_path / "models_of_usage.py"
    module.write_text("def worker(pod, seconds): return {'memory': 100 * seconds}\n")
    assert memory(file, "web", "shop") == 51
    assert memory(file, "worker", "shop") == 500
    assert memory(file, "web", "default") == 3
    assert read_scenario(file).seed == 7


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "usage.yaml: expected one document, got 0"),
        ("a: [", "usage.yaml: line"),
        ("usages: []", "usage.yaml: usages: unknown field, did you mean usage?"),
        ("usage: [{}]", "usage[0]: expected either uses or model"),
        ("usage: [{uses: memory=1, model: a:b}]", "usage[0]: expected either uses or model"),
        ("usage: [{uses: memory=lots}]", "usage[0].uses: 'memory=lots': expected <resource>="),
        (
            "usage: [{uses: memory=1, selector: {matchExpressions: [{key: a, operator: Is}]}}]",
            "usage[0].selector: matchExpressions[0].operator: expected one of",
        ),
        ("usage: [{model: no_such_module:f}]", "usage[0]: model: no_such_module: ModuleNotFound"),
        ("usage: [{model: raises:f}]", "usage[0]: model: raises: KeyError: 'x'"),
        ("usage: [{model: misspelt:f}]", "usage[0]: model: misspelt: SyntaxError: "),
        ("usage: [{model: '..x:y'}]", "usage[0]: model: expected module:function, got '..x:y'"),
        (
            "usage: [{uses: memory=1, selector: {matchLabels: {a: 5}}}]",
            "usage[0].selector.matchLabels[a]: expected text, got 5",
        ),
        ("usage: [{model: math}]", "usage[0]: model: expected module:function, got 'math'"),
        ("usage: [{model: 'math:no'}]", "usage[0]: model: expected module:function"),
    ],
)
def test_an_error_names_the_file_and_the_field(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "usage.yaml"
    file.write_text(text)
    (tmp_path / "raises.py").write_text("{}['x']\n")
    (tmp_path / "misspelt.py").write_text("def f(:\n")
    with pytest.raises(ScenarioError) as raised:
        read_scenario(file)
    assert problem in str(raised.value)
