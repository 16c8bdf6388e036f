"""kr8s: objects, watches, scale, conditions and commands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

import kr8s
import pytest
from kr8s.asyncio import Api
from kr8s.asyncio import api as connect
from kr8s.asyncio.objects import ConfigMap, Deployment, Pod, new_class

from berth.testing import ServedCluster
from tests.kit.documents import Document

# kr8s tells the versions that it was tested with
pytestmark = [
    pytest.mark.full("waits"),
    pytest.mark.filterwarnings("ignore:Kubernetes version:UserWarning"),
]
WEB: Document = {
    "selector": {"matchLabels": {"app": "web"}},
    "template": {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    },
}


@pytest.fixture
async def kube(served: ServedCluster, namespace: str) -> AsyncIterator[Api]:
    api = await connect(kubeconfig=str(served.kubeconfig), namespace=namespace)
    yield api
    if api._session is not None:
        await api._session.aclose()  # kr8s leaves its connections open


async def test_objects_are_written_and_read(kube: Api, namespace: str) -> None:
    named = {"name": "a", "namespace": namespace}
    settings = await ConfigMap({"metadata": named, "data": {"color": "blue"}}, api=kube)
    await settings.create()
    await settings.patch({"data": {"size": "1"}})
    await settings.label(tier="front")
    again = await ConfigMap.get("a", namespace=namespace, api=kube)
    assert (again.data, again.labels) == ({"color": "blue", "size": "1"}, {"tier": "front"})
    found = [each.name async for each in kube.get("configmaps", label_selector={"tier": "front"})]
    assert found == ["a"]
    await again.delete()
    assert not await settings.exists()
    with pytest.raises(kr8s.NotFoundError):
        await ConfigMap.get("a", namespace=namespace, api=kube)


async def test_a_deployment_is_scaled_and_its_pods_run(kube: Api, namespace: str) -> None:
    named = {"name": "web", "namespace": namespace}
    web = await Deployment({"metadata": named, "spec": WEB}, api=kube)
    await web.create()
    await web.wait("condition=Available", timeout=30)
    await web.scale(2)
    await web.wait("jsonpath='{.status.readyReplicas}'=2", timeout=30)
    pods = await web.pods()
    assert len(pods) == 2
    assert all([await pod.ready() for pod in pods])
    assert (await pods[0].exec(["echo", "hi"])).stdout == b"hi\n"
    assert [line async for line in pods[0].logs()] == []


async def test_a_watch_sees_what_changes(kube: Api, namespace: str) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod = await Pod({"metadata": {"name": "p", "namespace": namespace}, "spec": spec}, api=kube)
    await pod.create()
    ran = False
    async with aclosing(kube.watch("pods")) as events:
        async for sort, each in events:
            if sort == "DELETED":
                break
            if each.status.get("phase") == "Running" and not ran:
                ran = True
                await each.delete()
    assert ran


async def test_a_kind_is_found_by_its_name(kube: Api, namespace: str) -> None:
    lease = new_class("Lease", version="coordination.k8s.io/v1", namespaced=True, asyncio=True)
    held = {"metadata": {"name": "a", "namespace": namespace}, "spec": {"holderIdentity": "one"}}
    await (await lease(held, api=kube)).create()
    (found,) = [each async for each in kube.get("leases.coordination.k8s.io", "a")]
    assert found.spec["holderIdentity"] == "one"
