"""Static pods in a toy cluster in virtual time: their mirror pods come, come again, and go."""

from __future__ import annotations

from pathlib import Path

import anyio

from berth.tools.cluster.kubelets.configuration_files import read_configurations
from berth.tools.cluster.kubelets.housekeeping import Setup
from tests.kit.cluster import toy_cluster
from tests.kit.documents import Document
from tests.kit.virtual_loop import in_long_virtual_time, in_virtual_time

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {{name: web, labels: {{role: static}}}}
spec: {{containers: [{{name: c, image: "{image}", resources: {{requests: {{cpu: "{cpu}"}}}}}}]}}
"""
CONFIGURATION = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
metadata: {annotations: {berth.dev/node-selector: kubernetes.io/hostname=node-1}}
staticPodPath: manifests
"""


def manifest(folder: Path, image: str = "nginx", cpu: str = "1") -> Setup:
    """Writes the manifest of a pod for node-1; returns the configuration of its kubelet."""
    (folder / "manifests").mkdir(exist_ok=True)
    (folder / "manifests/web.yaml").write_text(MANIFEST.format(image=image, cpu=cpu))
    (folder / "kubelet.yaml").write_text(CONFIGURATION)
    return Setup(read_configurations(folder / "kubelet.yaml"))


def runs(pod: Document) -> bool:
    return any(
        (c["type"], c["status"]) == ("Ready", "True") for c in pod["status"].get("conditions", ())
    )


@in_virtual_time
async def test_a_static_pod_runs_on_its_node_and_shows_in_a_mirror_pod(tmp_path: Path) -> None:
    setup = manifest(tmp_path)
    async with toy_cluster(2, setup=setup) as running:
        pod = await running.until("Pod", "web-node-1", runs)
        node = await running.get("Node", "node-1")
        annotations = pod["metadata"]["annotations"]
        assert annotations["kubernetes.io/config.source"] == "file"
        assert (
            annotations["kubernetes.io/config.mirror"] == annotations["kubernetes.io/config.hash"]
        )
        assert len(annotations["kubernetes.io/config.hash"]) == 32
        assert "kubernetes.io/config.seen" in annotations
        (owner,) = pod["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == (
            "Node",
            "node-1",
            node["metadata"]["uid"],
            True,
        )
        assert {"operator": "Exists", "effect": "NoExecute"} in pod["spec"]["tolerations"]
        assert pod["metadata"]["labels"] == {"role": "static"}
        assert len(await running.all("Pod")) == 1


@in_long_virtual_time
async def test_a_deleted_mirror_pod_comes_again_and_its_containers_have_run_on(
    tmp_path: Path,
) -> None:
    setup = manifest(tmp_path)
    async with toy_cluster(1, setup=setup) as running:
        before = await running.until("Pod", "web-node-1", runs)
        await anyio.sleep(30)
        await running.delete("Pod", "web-node-1")
        await running.gone("Pod", "web-node-1")  # for as long as clients need to see it
        after = await running.until("Pod", "web-node-1", runs)
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
        assert after["status"]["podIP"] == before["status"]["podIP"]


@in_long_virtual_time
async def test_another_version_of_the_manifest_replaces_the_pod_and_none_removes_it(
    tmp_path: Path,
) -> None:
    setup = manifest(tmp_path)
    async with toy_cluster(1, setup=setup) as running:
        before = await running.until("Pod", "web-node-1", runs)
        manifest(tmp_path, image="nginx:2")
        after = await running.until(
            "Pod", "web-node-1", lambda pod: pod["spec"]["containers"][0]["image"] == "nginx:2"
        )
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        (tmp_path / "manifests/web.yaml").unlink()
        await running.gone("Pod", "web-node-1")
        await anyio.sleep(60)
        assert await running.all("Pod") == []


@in_long_virtual_time
async def test_a_static_pod_preempts_others_when_the_node_is_full(tmp_path: Path) -> None:
    setup = manifest(tmp_path, cpu="5")
    (tmp_path / "manifests/web.yaml").rename(tmp_path / "web.yaml")
    async with toy_cluster(1, setup=setup) as running:
        resources = {"requests": {"cpu": "6"}}
        other = {"name": "c", "image": "nginx", "resources": resources}
        await running.create("Pod", {"metadata": {"name": "p"}, "spec": {"containers": [other]}})
        await running.until("Pod", "p", runs)
        (tmp_path / "web.yaml").rename(tmp_path / "manifests/web.yaml")
        await running.until("Pod", "web-node-1", runs)
        preempted = await running.get("Pod", "p")
        assert preempted["status"]["reason"] == "Preempting"


@in_long_virtual_time
async def test_what_is_no_pod_is_passed_over(tmp_path: Path) -> None:
    setup = manifest(tmp_path)
    folder = tmp_path / "manifests"
    (folder / "a.yaml").write_text("kind: ConfigMap")
    (folder / "b.yaml").write_text("kind: Pod\nmetadata: {}")
    (folder / "c.yaml").write_text("{")
    (folder / ".hidden.yaml").write_text(MANIFEST.format(image="x", cpu="1"))
    async with toy_cluster(1, setup=setup) as running:
        await running.until("Pod", "web-node-1", runs)
        await anyio.sleep(60)
        assert len(await running.all("Pod")) == 1
