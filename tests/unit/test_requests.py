"""`berth.requests` and `berth explain --requests`: what a pod really asks for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from berth import requests
from berth.requests import Rule, SourceError, requests_of
from berth.tools.views.commands.explain import explain
from tests.kit.documents import Document, container, node, pod, thing

KATA = thing("RuntimeClass", "kata", handler="kata", overhead={"podFixed": {"cpu": "250m"}})
GPU = thing("DeviceClass", "gpu", spec={"extendedResourceName": "example.com/gpu"})
RESIZED = pod(
    "two",
    node="n1",
    containers=[container("a", 5), container("b", 1)],
    status={
        "phase": "Running",
        "containerStatuses": [
            {
                "name": name,
                "allocatedResources": {"cpu": cpu},
                "resources": {"requests": {"cpu": cpu}},
            }
            for name, cpu in (("a", "1"), ("b", "5"))
        ],
    },
)


def limited(**spec: object) -> Document:
    limits = {"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}
    only = {"name": "app", "image": "i", "resources": {"limits": limits}}
    return {"metadata": {"name": "p"}, "spec": {"containers": [only], **spec}}


def test_every_public_name_is_listed() -> None:
    assert {*requests.__all__} <= {*vars(requests)}


def test_a_manifest_is_completed_as_the_api_server_would() -> None:
    asked = requests_of(limited(runtimeClassName="kata"), [KATA])
    assert asked.requests == {"cpu": 1250, "memory": 1 << 30, "example.com/gpu": 1}
    assert [part.rule for part in asked.parts] == [Rule.CONTAINER, Rule.OVERHEAD]


@pytest.mark.parametrize("metadata", [{}, None, {"labels": {"app": "a"}}])
def test_the_template_of_a_workload_has_no_name(metadata: object) -> None:
    assert requests_of({**limited(), "metadata": metadata}).requests["cpu"] == 1000


def test_the_other_objects_of_a_cluster_do_not_matter() -> None:
    asked = requests_of(limited(runtimeClassName="kata"), [pod("b", "7"), node("n"), GPU, KATA])
    assert asked.requests["cpu"] == 1250


def test_a_resize_counts_as_the_version_counts_it() -> None:
    assert requests_of(RESIZED, version="1.36").requests["cpu"] == 10_000
    assert requests_of(RESIZED, version="1.37").requests["cpu"] == 6_000


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ({}, "spec.containers: Required value"),
        ({"spec": 3}, "spec: Pod in version"),
        ({"metadata": 3}, "metadata: expected an object with a name"),
        (pod(containers=3), "spec.containers: Pod in version"),
        (pod(cpu="x"), "resources.requests.cpu: .*quantities must match"),
        (limited(runtimeClassName="none"), '"none" not found'),
    ],
)
def test_a_manifest_that_is_wrong_names_its_field(manifest: Document, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        requests_of(manifest)


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected 1\.33 to"):
        requests_of(limited(), version="1.12")


# -------------------------------------------------------------------------------------- the command


def run(folder: Path, *words: str, objects: tuple[Document, ...]) -> Result:
    file = folder / "objects.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    return CliRunner().invoke(explain, ["-f", str(file), "--requests", *words])


def test_the_table_of_a_workload_without_nodes(tmp_path: Path) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": limited(runtimeClassName="kata")["spec"],
    }
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    web = thing("Deployment", "web", spec=spec)
    result = run(tmp_path, "deployment/web", objects=(KATA, GPU, web))
    assert result.exit_code == 0, result.output
    assert "│ Container app │     1 │" in result.output
    assert "│ the pod       │ 1250m │" in result.output
    assert "Overhead: the overhead of its RuntimeClass is added" in result.output
    assert "example.com/gpu: devices of the DeviceClass gpu serve it" in result.output


def test_the_json_of_a_pod(tmp_path: Path) -> None:
    result = run(tmp_path, "two", "-o", "json", objects=(node("n1", 20), RESIZED))
    answer = json.loads(result.output)
    assert (answer["pod"], answer["requests"]) == ("default/two", {"cpu": "10"})
    assert [(p["rule"], p["name"], p["counts"]) for p in answer["parts"]] == [
        ("Container", "a", []),
        ("Container", "b", []),
        ("Resize", "", ["cpu"]),
    ]


def test_it_needs_a_name(tmp_path: Path) -> None:
    result = run(tmp_path, objects=(RESIZED,))
    assert result.exit_code == 2
    assert "--requests: expected the NAME of a pod or of a workload" in result.output
