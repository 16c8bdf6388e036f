"""The command line of kubeadm's static pod for kube-scheduler 1.36, with other paths of files."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.kit.daemons import LEADS, daemons
from tests.kit.processes import berth, free_port
from tests.kit.serving import kubeconfig

pytestmark = pytest.mark.full

SECURE_PORT = 10259  # kube-scheduler's default
COMMAND = (
    "kube-scheduler",
    "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
    "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
    "--bind-address=127.0.0.1",
    "--kubeconfig=/etc/kubernetes/scheduler.conf",
    "--leader-elect=true",
)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


async def test_the_command_of_the_manifest_starts_a_leader_that_places_pods(tmp_path: Path) -> None:
    program = tmp_path / COMMAND[0]
    program.symlink_to(Path(sys.executable).with_name("berth"))
    async with daemons(tmp_path) as running:
        conf = tmp_path / "scheduler.conf"
        conf.write_text(kubeconfig(running.url, "system:kube-scheduler"))
        flags = [flag.replace("/etc/kubernetes/scheduler.conf", str(conf)) for flag in COMMAND[1:]]
        port = SECURE_PORT
        if not is_free(port):  # another scheduler runs on this machine
            port = free_port()
            flags.append(f"--secure-port={port}")
        async with berth(tmp_path, *flags, program=(str(program),)) as scheduler:
            running.schedulers.append(scheduler)
            start = await scheduler.says('"starting"')
            for field in ("identity=", f'server="{running.url}"', 'lock="kube-system/kube-sched'):
                assert field in start
            assert 'profiles="default-scheduler"' in start
            await scheduler.says(LEADS)
            await running.node("n")
            await running.pod("p")
            await running.bound("p")
            assert (await running.lease())["holderIdentity"] in start
            assert not [line for line in scheduler.output.splitlines() if line.startswith("W")]
            async with aiohttp.ClientSession() as session:
                for page, text in (("livez", "ok"), ("readyz", "ok"), ("metrics", "# HELP ")):
                    where = f"https://127.0.0.1:{port}/{page}"
                    async with session.get(where, ssl=False) as answer:
                        assert (answer.status, (await answer.text())[: len(text)]) == (200, text)
            running.assert_bound_once(1)
