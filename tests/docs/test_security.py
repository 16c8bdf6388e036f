"""The commands of docs/security.md do what the page says, against a running scheduler."""

from __future__ import annotations

import subprocess
from pathlib import Path

import anyio.to_thread
import msgspec
import pytest

from berth.config.options import SecureServing
from tests.docs.blocks import ROOT, blocks
from tests.integration.test_serving import delegating
from tests.kit.certificates import Authority
from tests.kit.daemon import daemon
from tests.kit.reviewer import Reviewer

PAGE = ROOT / "docs/security.md"
COMMANDS = [
    line for block in blocks(PAGE, "sh") for line in block.text.splitlines() if line[:4] == "curl"
]
SHOWN = {
    "/livez": "ok",
    "/readyz?verbose": "[+]sched-handler-sync ok",
    "/metrics": "# TYPE",
    "/statusz": '"kind": "Statusz"',
    "/configz": "KubeSchedulerConfiguration",
}


@pytest.mark.full
async def test_every_command_of_the_page(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.sign("jane", "extendedKeyUsage=clientAuth")
    reviewer = Reviewer()
    reviewer.add("secret", "prometheus")
    reviewer.rights |= {("prometheus", path) for path in ("/metrics", "/statusz")}
    reviewer.rights.add(("jane", "/configz"))
    async with delegating(tmp_path, reviewer) as options:
        assert options.serving is not None
        port = options.serving.secure_port
        own = SecureServing("127.0.0.1", port, cert_dir=str(tmp_path / "certs"))
        trusted = msgspec.structs.replace(
            options.authentication, client_ca_file=authority.path("ca.crt")
        )
        options = msgspec.structs.replace(options, serving=own, authentication=trusted)
        async with daemon(options=options):
            assert len(COMMANDS) == 5
            for command in COMMANDS:
                told = await anyio.to_thread.run_sync(run, command, port, tmp_path)
                (words,) = (said for path, said in SHOWN.items() if f"10259{path}" in command)
                assert words in told, command


def run(command: str, port: int, folder: Path) -> str:
    done = subprocess.run(
        command.replace("127.0.0.1:10259", f"127.0.0.1:{port}"),
        shell=True,
        cwd=folder,
        env={"TOKEN": "secret", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
