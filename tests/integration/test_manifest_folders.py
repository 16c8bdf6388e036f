"""kubectl on folders of ordinary manifests says what it says of a real cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.kubectl import bare_demo
from tests.kit.manifest_folders import NAMESPACE, RECORDED, Answer, names, said
from tests.kit.programs import needs

pytestmark = [pytest.mark.full, needs("kubectl")]


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("demo")
    with bare_demo(folder) as daemon:
        daemon.kubectl("create", "namespace", NAMESPACE)
        yield daemon.config


@pytest.mark.parametrize("name", names())
def test_a_folder(kubeconfig: Path, name: str) -> None:
    recorded: dict[str, list[Answer]] = json.loads(RECORDED.read_text())
    assert said(kubeconfig, name) == recorded[name]
