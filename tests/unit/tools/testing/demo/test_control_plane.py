"""The pods of the control plane that a kept demo shows in kube-system."""

from __future__ import annotations

from berth.config.versions import CURRENT
from berth.tools.cluster.controllers.embedded_access import EmbeddedAccess
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.testing.demo.control_plane import create_control_plane, is_of_control_plane
from berth.tools.testing.demo.page_source import listed
from tests.kit.stores import fresh_store
from tests.kit.virtual_loop import in_virtual_time

PODS = "/api/v1/pods"


@in_virtual_time
async def test_its_programs_run_and_are_labelled_as_by_kubeadm() -> None:
    store = fresh_store()
    Api(store).seed()
    access = EmbeddedAccess(store)
    await create_control_plane(access, CURRENT, "2026-01-01T00:00:00Z", metrics=True)

    pods = (await access.call("GET", f"{PODS}?labelSelector=tier%3Dcontrol-plane", dict))["items"]
    assert [pod["metadata"]["labels"]["component"] for pod in pods] == [
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
    ]
    selected = await access.call("GET", f"{PODS}?labelSelector=k8s-app%3Dmetrics-server", dict)
    for pod in (*pods, *selected["items"]):
        assert pod["metadata"]["namespace"] == "kube-system"
        assert pod["status"]["phase"] == "Running"
        assert "nodeName" not in pod["spec"]
        assert is_of_control_plane(pod)
    assert await listed(access, "v1", "Pod", PODS) == []
