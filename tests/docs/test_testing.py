"""The tests of the page about testing pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.tools.cluster.faults.fault_files import read_faults
from berth.tools.cluster.faults.vocabulary import FaultPlace
from tests.docs.blocks import ROOT, write_files
from tests.kit.programs import needs

pytest_plugins = ["pytester"]
TESTING = ROOT / "docs/testing.md"


@pytest.mark.parametrize("name", ["rollout", "filled", "marked", "story", "devices", "decision"])
def test_an_example_passes(name: str, pytester: pytest.Pytester) -> None:
    write_files(TESTING, pytester.path)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    pytester.runpytest_inprocess(f"test_{name}.py").assert_outcomes(passed=1)


def test_the_examples_with_faults_pass(pytester: pytest.Pytester) -> None:
    write_files(ROOT / "docs/faults.md", pytester.path)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    pytester.runpytest_inprocess("test_faults.py").assert_outcomes(passed=2)
    read_faults(pytester.path / "faults.yaml", FaultPlace.WIRE)


def test_the_example_of_a_plugin_passes(pytester: pytest.Pytester) -> None:
    write_files(TESTING, pytester.path)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    pytester.runpytest_inprocess("test_plugin.py").assert_outcomes(passed=3)


@needs("kubectl")
@pytest.mark.full("asks another program")
def test_kubectl_reaches_the_cluster_of_the_example(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_files(TESTING, pytester.path)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    pytester.runpytest_inprocess("test_kubectl.py").assert_outcomes(passed=1)
