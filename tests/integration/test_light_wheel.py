"""The distribution berth-apiserver: the API server, without what only the scheduler needs."""

from __future__ import annotations

import json
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from packaging.requirements import Requirement

from tests.kit.custom_kinds import SHIRTS, definition, shirt
from tests.kit.documents import pod
from tests.kit.installations import Environment, built
from tests.kit.processes import berth

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "config/deploy/apiserver"
PODS = "/api/v1/namespaces/default/pods"
CONTAINER = {"name": "c", "image": "i"}


def project(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return read


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(FOLDER, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Iterator[Environment]:
    required = [Requirement(each).name for each in project(FOLDER)["dependencies"]]
    environment = Environment(tmp_path_factory.mktemp("installed"), *required)
    environment.install(wheel)
    yield environment
    environment.uninstall("berth-apiserver")
    assert environment.installed() == environment.before


def test_it_is_described_as_the_whole(wheel: Path) -> None:
    light, whole = project(FOLDER), project(ROOT)
    assert (light["version"], light["requires-python"]) == (
        whole["version"],
        whole["requires-python"],
    )
    extras = light["optional-dependencies"]
    assert {*extras["tls"], *extras["webhooks"]} <= {*whole["dependencies"]}
    assert {*light["dependencies"]} <= {*whole["dependencies"]}
    names = zipfile.ZipFile(wheel).namelist()
    assert "berth/LICENSE" in names
    assert not [name for name in names if name.endswith(".pyc")]
    assert not [name for name in names if name.startswith("berth/actors/scheduling/plugins")]


async def test_it_serves_with_nothing_but_what_it_requires(
    installed: Environment, tmp_path: Path
) -> None:
    heavy = ("numpy", "textual", "cryptography", "aiohttp", "rich", "prometheus_client")
    assert installed.finds(*heavy, "pytest") == []
    assert project(FOLDER)["version"] in installed.berth("--version")
    assert "apiserver" in installed.berth("--help")
    kept = ("--snapshot", str(tmp_path / "cluster"))
    program = (str(installed.program),)
    async with (
        berth(tmp_path, "apiserver", *kept, program=program) as server,
        aiohttp.ClientSession() as session,
    ):
        url = (await server.says("API server at ")).split()[-1]

        async def call(method: str, path: str, body: Any = None, how: str = "json") -> Any:
            headers = {"Content-Type": f"application/{how}"}
            data = None if body is None else json.dumps(body)
            async with session.request(method, url + path, data=data, headers=headers) as answer:
                assert answer.status < 300, await answer.text()
                return await answer.json(content_type=None)

        await call("POST", PODS, pod("p"))
        for how in ("strategic-merge-patch+json", "merge-patch+json"):
            await call("PATCH", f"{PODS}/p", {"metadata": {"labels": {"l": how[:5]}}}, how)
        operation = {"op": "add", "path": "/metadata/labels/m", "value": "x"}
        await call("PATCH", f"{PODS}/p", [operation], "json-patch+json")
        head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q"}}
        applied = {**head, "spec": {"containers": [CONTAINER]}}
        await call("PATCH", f"{PODS}/q?fieldManager=me", applied, "apply-patch+yaml")
        await call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
        await call("POST", SHIRTS, shirt("a"))
        listed = await call("GET", PODS)
        assert [item["metadata"]["name"] for item in listed["items"]] == ["p", "q"]
        for path in ("/api", "/apis", "/openapi/v3", "/version"):
            await call("GET", path)


def test_what_it_leaves_out_is_imported_by_nothing_in_it(installed: Environment) -> None:
    """Every module can be imported, but those that need an extra."""
    code = (
        "import berth, importlib, pkgutil\n"
        "for module in pkgutil.walk_packages(berth.__path__, 'berth.'):\n"
        "    try: importlib.import_module(module.name)\n"
        "    except ImportError as problem: print(problem.name, module.name)\n"
    )
    missing = dict(line.split()[::-1] for line in installed.run("-c", code).splitlines())
    apiserver = "berth.tools.cluster.apiserver"
    assert {*missing.values()} == {"aiohttp", "cryptography"}, missing
    assert missing[f"{apiserver}.webhook_client"] == "aiohttp"
    assert missing[f"{apiserver}.authority"] == "cryptography"
    assert "berth.tools.cluster.apiserver.program" not in missing
