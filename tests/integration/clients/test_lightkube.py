"""lightkube: objects, watches, apply and scale."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lightkube import ApiError, Client, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.apps_v1 import DeploymentSpec
from lightkube.models.autoscaling_v1 import ScaleSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap

from berth.testing import ServedCluster
from tests.integration.clients.histories import forget_history

pytestmark = pytest.mark.full("waits")


@pytest.fixture
def kube(served: ServedCluster, namespace: str) -> Iterator[Client]:
    config = KubeConfig.from_file(str(served.kubeconfig))
    with Client(config, namespace=namespace, field_manager="one") as connected:
        yield connected


def settings(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, labels={"app": "x"}), data=data)


def test_objects_are_written_and_read(kube: Client) -> None:
    created = kube.create(settings("a", color="blue"))
    patched = kube.patch(ConfigMap, "a", {"data": {"size": "1"}})
    assert patched.data == {"color": "blue", "size": "1"}
    created.data = {}
    with pytest.raises(ApiError) as late:
        kube.replace(created)
    assert (late.value.status.code, late.value.status.reason) == (409, "Conflict")
    found = kube.list(ConfigMap, labels={"app": ["x", "y"]}, fields={"metadata.name": "a"})
    assert [each.data for each in found] == [patched.data]
    kube.deletecollection(ConfigMap)
    with pytest.raises(ApiError) as missing:
        kube.get(ConfigMap, "a")
    assert missing.value.status.code == 404


def test_apply_has_owners(kube: Client) -> None:
    assert kube.apply(settings("a", color="blue", size="1")).data == {"color": "blue", "size": "1"}
    with pytest.raises(ApiError, match="conflict with"):
        kube.apply(settings("a", color="red"), field_manager="two")
    kube.apply(settings("a", color="red"), field_manager="two", force=True)
    assert kube.apply(settings("a")).data == {"color": "red"}


def test_a_watch_goes_on_where_it_ended(kube: Client, served: ServedCluster) -> None:
    listed = kube.list(ConfigMap)
    list(listed)
    version = listed.resourceVersion
    kube.create(settings("a"))
    kube.patch(ConfigMap, "a", {"data": {"x": "1"}})
    kube.delete(ConfigMap, "a")
    seen = []
    for sort, each in kube.watch(ConfigMap, resource_version=version):
        assert each.metadata is not None
        seen.append((sort, each.metadata.name))
        if sort == "DELETED":
            break
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    forget_history(served)
    with pytest.raises(ApiError) as gone:
        next(kube.watch(ConfigMap, resource_version=version))
    assert gone.value.status.code == 410


def test_a_deployment_is_scaled_and_awaited(kube: Client) -> None:
    labels = {"app": "web"}
    pods = PodSpec(containers=[Container(name="c", image="i")])
    template = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=pods)
    spec = DeploymentSpec(selector=LabelSelector(matchLabels=labels), template=template)
    kube.create(Deployment(metadata=ObjectMeta(name="web"), spec=spec))
    ready = kube.wait(Deployment, "web", for_conditions=("Available",))
    assert ready.status is not None
    assert ready.status.readyReplicas == 1
    kube.patch(Deployment.Scale, "web", {"spec": {"replicas": 2}})
    scale = kube.get(Deployment.Scale, "web")
    assert scale.spec == ScaleSpec(replicas=2)


def test_a_custom_kind_needs_no_model(kube: Client) -> None:
    leases = create_namespaced_resource("coordination.k8s.io", "v1", "Lease", "leases")
    kube.create(leases(metadata=ObjectMeta(name="a"), spec={"holderIdentity": "one"}))
    assert kube.get(leases, "a").spec == {"holderIdentity": "one"}
