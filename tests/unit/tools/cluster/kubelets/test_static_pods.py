"""When the kubelets read the manifests of static pods."""

from __future__ import annotations

from pathlib import Path

import anyio

from berth.tools.cluster.kubelets.static_pods import StaticPodPlace, StaticPods
from berth.tools.kubernetes.objects.structs import Document
from tests.kit.clock import VirtualClock

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: i}]}
"""


async def test_a_node_that_comes_after_the_list_runs_its_static_pods(tmp_path: Path) -> None:
    """Its manifests are those of a node that was there before, so they have not changed."""
    (tmp_path / "web.yaml").write_text(MANIFEST)
    clock, created = VirtualClock(), list[str]()

    async def send(method: str, path: str, body: Document, content_type: str) -> Document:
        assert (method, path) == ("POST", "/api/v1/namespaces/default/pods")
        created.append(body["metadata"]["name"])
        static.put(body)
        return body

    static = StaticPods(send, clock)
    async with anyio.create_task_group() as group:
        for name in ("before", "after"):
            static.put_node(StaticPodPlace(name, f"uid of {name}", tmp_path, 20.0))
            if name == "before":
                static.replace([])
                group.start_soon(static.run)
            await clock.advance(10.0)
        assert created == ["web-before", "web-after"]
        await clock.advance(60.0)
        static.remove_node("before")
        (tmp_path / "web.yaml").write_text(MANIFEST.replace("web", "new"))
        await clock.advance(1.0)
        assert len(created) == 2
        group.cancel_scope.cancel()
