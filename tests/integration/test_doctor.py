"""`berth doctor` against a running scheduler, with a plugin that misses events and with none."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner, Result

from berth.actors.scheduling.plugins.node_resources_fit import NodeResourcesFit
from berth.actors.telemetry.logs import configure_logs
from berth.tools.views.commands.doctor import doctor
from tests.kit.cluster import cluster
from tests.kit.documents import node, pod
from tests.kit.serving import kubeconfig, open_to_all, url_of


@pytest.mark.full("long")
@pytest.mark.parametrize("deaf", [True, False])
async def test_a_pod_that_no_hint_wakes_is_found(
    deaf: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if deaf:
        monkeypatch.setattr(NodeResourcesFit, "events_to_register", lambda self: ())
    options = open_to_all()
    async with cluster() as running:
        await running.schedule(options=options)
        await running.create("Node", node("n", "2"))
        await running.create("Pod", pod("big", "4"))
        await running.create("Pod", pod("giant", "90"))
        for name in ("big", "giant"):
            await running.status("Pod", name, lambda status: bool(status.get("conditions")))
        await running.create("Node", node("large", "8"))
        if not deaf:
            await running.node_of("big")
        file = tmp_path / "kubeconfig"
        file.write_text(kubeconfig(running.url))
        flags = [f"--server={url_of(options)}", "--insecure-skip-tls-verify", "--apart=0.3"]
        flags += [f"--kubeconfig={file}", "-o", "json"]
        configure_logs(quiet=True)
        invoke = partial(CliRunner().invoke, doctor, flags)
        result: Result = await anyio.to_thread.run_sync(invoke)
    assert result.exit_code == int(deaf), result.output
    seen = {
        item["key"]: (item["verdict"], item["node"]) for item in json.loads(result.output)["items"]
    }
    forgotten = {"default/big": ("forgotten", "large")} if deaf else {}
    assert seen == {**forgotten, "default/giant": ("does not fit", "")}
