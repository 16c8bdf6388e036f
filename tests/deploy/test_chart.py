"""The Helm chart, as Helm's own engine renders it: it has the objects of the kustomizations."""

from __future__ import annotations

import re
from typing import Any

import pytest
from helm_python import HelmError
from helm_python.chart import Chart, lint

from berth.actors.scheduling.kube.yaml_documents import documents
from berth.config.load import from_mapping
from tests.deploy.test_manifests import accepted, only, overlay_of, overlays
from tests.docs.blocks import ROOT, blocks
from tests.kit.documents import Document
from tests.kit.programs import needs
from tests.kit.rights import DEPLOY, NAMESPACE

CHART = DEPLOY / "chart"
INFORMATION = 1  # the least severity of a message
# What only one of the two has: labels of Helm, and how a changed configuration starts new pods.
INSTANCE = "app.kubernetes.io/instance"
CHECKSUM = "checksum/configuration"

pytestmark = pytest.mark.full


def rendered(values: Document | None = None, namespace: str = NAMESPACE) -> tuple[Document, ...]:
    with Chart.load(CHART) as chart:
        files = chart.render(values, name="berth", namespace=namespace)
    texts = (text for name, text in files.items() if name.endswith(".yaml"))
    return tuple(each for text in texts for each in documents(text.encode()) if each)


def plain(found: Any) -> Any:
    """Returns an object without what only one way of rendering writes."""
    if isinstance(found, list):
        return [plain(each) for each in found]
    if not isinstance(found, dict):
        return found
    copy = {key: plain(value) for key, value in found.items() if key not in (INSTANCE, CHECKSUM)}
    if "configMap" in copy:
        copy["configMap"] = "its name ends with a hash"
    return copy


def by_name(manifests: tuple[Document, ...]) -> dict[tuple[str, str, str], Document]:
    objects = {}
    for each in manifests:
        body = {key: plain(value) for key, value in each.items() if key != "metadata"}
        metadata = each["metadata"]
        name = re.sub(r"(-configuration)-\w+$", r"\1", metadata["name"])
        objects[each["kind"], metadata.get("namespace", ""), name] = body
    return objects


@needs("kubectl")
@overlays
def test_it_renders_what_kustomize_renders(overlay: str, lease: str, scheduler: str) -> None:
    chart = by_name(rendered({"inPlace": overlay == "in-place"}))
    overlay_objects = by_name(overlay_of(overlay))
    for objects in (chart, overlay_objects):
        configuration = objects["ConfigMap", NAMESPACE, "berth-configuration"]["data"]
        (configuration["scheduler.yaml"],) = documents(configuration["scheduler.yaml"].encode())
    assert chart == overlay_objects


def test_helm_finds_no_fault() -> None:
    report = lint(CHART, strict=True)
    assert not report["errors"]
    worse = [each for each in report["messages"] if each["severity"] > INFORMATION]
    assert not worse


def test_the_api_server_takes_all_that_it_renders() -> None:
    (block,) = (
        each for each in blocks(ROOT / "docs/deploying.md", "yaml") if "rules:" in each.text
    )
    (values,) = documents(block.text.encode())
    for namespace in (NAMESPACE, "default"):
        manifests = rendered({**values, "monitoring": {"enabled": True}}, namespace)
        for document in manifests:
            accepted(document)
        names = {(each["kind"], each["metadata"]["name"]) for each in manifests}
        assert ("ServiceMonitor", "berth") in names
        assert ("ClusterRole", "berth-plugins") in names


def test_its_configuration_is_one_of_berth() -> None:
    profiles = [{"schedulerName": "mine"}]
    values = {"configuration": {"parallelism": 4, "profiles": profiles}}
    written = only(rendered(values, "default"), "ConfigMap")["data"]["scheduler.yaml"]
    (document,) = documents(written.encode())
    configuration = from_mapping(document)
    assert configuration.parallelism == 4
    assert [each.scheduler_name for each in configuration.profiles] == ["mine"]
    assert configuration.leader_election.resource_namespace == "default"


def names_of_profiles(values: Document) -> list[str]:
    (document,) = documents(only(rendered(values), "ConfigMap")["data"]["scheduler.yaml"].encode())
    return [each["schedulerName"] for each in document["profiles"]]


@pytest.mark.parametrize("configuration", [None, {}, {"profiles": None}, {"profiles": []}])
def test_values_without_profiles_have_one(configuration: Document | None) -> None:
    assert names_of_profiles({"configuration": configuration}) == ["berth"]


@pytest.mark.parametrize(("in_place", "name"), [(False, "berth"), (True, "default-scheduler")])
def test_a_profile_without_a_name_is_no_second_default_scheduler(in_place: bool, name: str) -> None:
    profiles = [{"plugins": {}}, {"schedulerName": "mine"}]
    values = {"inPlace": in_place, "configuration": {"profiles": profiles}}
    assert names_of_profiles(values) == [name, "mine"]


@pytest.mark.parametrize(
    "values",
    [
        {"replica": 3},
        {"replicas": 0},
        {"image": {"repository": "berth", "digest": "sha256:1"}},
        {"configuration": {"leaderElection": {"leaderElect": False}}},
        {"configuration": {"profiles": ["mine"]}},
        {"arguments": ["--config=/etc/mine.yaml"]},
        {"arguments": ["--secure-port=443"]},
        {"arguments": ["--v=2", "--leader-elect=false"]},
        {"environment": [{"name": "WORKERS", "value": 3}]},
        {"image": None},
    ],
)
def test_a_wrong_value_is_refused(values: Document) -> None:
    with pytest.raises(HelmError):
        rendered(values)


def test_a_digest_counts_before_a_tag() -> None:
    digest = f"sha256:{'a' * 64}"
    manifests = rendered({"image": {"repository": "r/berth", "tag": "mine", "digest": digest}})
    (container,) = only(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"r/berth@{digest}"
