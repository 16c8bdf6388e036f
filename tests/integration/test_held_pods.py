"""What the tools say about pods that a plugin of a package holds in a running scheduler."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import anyio
import click
import pytest
from click.testing import CliRunner

from berth.actors.telemetry.logs import configure_logs
from berth.tools.views.commands.debug import debug
from berth.tools.views.commands.doctor import doctor
from berth.tools.views.commands.why import why
from tests.kit.cluster import cluster, configured
from tests.kit.daemon import node, pod
from tests.kit.processes import install
from tests.kit.serving import kubeconfig, open_to_all, url_of

SOURCE = """
from berth.plugin import *


class Holds(PreEnqueuePlugin, ReservePlugin, PermitPlugin, PreBindPlugin):
    name = "Holds"

    def pre_enqueue(self, pod):
        return self._at("pre-enqueue", pod)

    def reserve(self, state, info, node):
        return self._at("reserve", info.pod)

    def unreserve(self, state, info, node): ...

    def permit(self, state, info, node):
        if info.pod.metadata.name == "waits":
            return Status(Code.WAIT), 600.0
        return self._at("permit", info.pod), 0.0

    async def pre_bind(self, state, info, node):
        return self._at("pre-bind", info.pod)

    def _at(self, point, pod):
        return unschedulable("not now") if pod.metadata.name == point else SUCCESS
"""
REJECTED = ("reserve", "permit", "pre-bind")
HELD = ("pre-enqueue", "waits", *REJECTED)
# What `berth why` says about each pod, in its last attempt or without one.
WHY = {
    "pre-enqueue": "Holds keeps it out of the queue since",
    "waits": "it waits on n until Holds permits it, at most",
    **dict.fromkeys(REJECTED, "failed on n after the decision"),
}


@pytest.mark.full("long")
async def test_all_tools_tell_what_holds_a_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "holds_live", SOURCE, Holds="holds_live:Holds")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins = {"multiPoint": {"enabled": [{"name": "Holds"}]}}
    configuration = configured(profiles=[{"plugins": plugins}])
    options = open_to_all()
    (tmp_path / "kubeconfig").write_text("{}")
    server = (f"--server={url_of(options)}", "--insecure-skip-tls-verify")

    async def ask(command: click.Command, *arguments: str) -> str:
        configure_logs(quiet=True)  # the scheduler runs in this process
        invoke = partial(CliRunner().invoke, command, [*arguments, *server])
        result = await anyio.to_thread.run_sync(invoke)
        return " ".join(result.output.split())

    async def says(text: str, command: click.Command, *arguments: str) -> str:
        with anyio.fail_after(20):
            while text not in (said := await ask(command, *arguments)):
                await anyio.sleep(0.05)
        return said

    async with cluster() as running:
        await running.schedule(configuration, options)
        await running.create("Node", node("n", "8"))
        for name in HELD:
            await running.create("Pod", pod(name))
        file = tmp_path / "kubeconfig"
        file.write_text(kubeconfig(running.url))
        for name, text in WHY.items():
            said = await says(text, why, name, f"--kubeconfig={file}")
            assert "not now" in said or name == "waits", said
            if name != "pre-bind":  # a failure as in kube-scheduler, which no plugin's hint ends
                assert "Holds" in await ask(debug, f"--pod={name}")
        items = json.loads(await ask(doctor, f"--kubeconfig={file}", "--apart=0", "-o", "json"))
        seen = {item["key"]: item for item in items["items"]}
        assert seen["default/pre-enqueue"]["verdict"] == "gated"
        assert seen["default/pre-enqueue"]["rejectedBy"] == ["Holds"]
        assert seen["default/pre-enqueue"]["message"] == "not now"
