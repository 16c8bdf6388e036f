"""The leader is found through the lease, and reached through kubectl."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.actors.client.rest import Client, Connection
from berth.tools.answers.debug.leader_pod import NoLeaderError, port_forward
from berth.tools.cluster.apiserver.app import serve

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
PODS = "/api/v1/namespaces/kube-system/pods"
LEASE = "kube-system/kube-scheduler"


@pytest.fixture
def arguments_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the arguments of kubectl, in place of which a script says what kubectl says."""
    script, arguments_file = tmp_path / "kubectl", tmp_path / "asked"
    script.write_text(
        f'#!/bin/sh\necho "$@" > {arguments_file}\n'
        'echo "Forwarding from 127.0.0.1:4321 -> 10259"\nexec sleep 60\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return arguments_file


async def lead(client: Client, holder: str) -> None:
    lease = {"metadata": {"name": "kube-scheduler"}, "spec": {"holderIdentity": holder}}
    await client.call("POST", LEASES, dict, lease)


async def run_pod(client: Client, name: str) -> None:
    container = {"name": "c", "image": "i"}
    pod = {"metadata": {"name": name}, "spec": {"containers": [container]}}
    await client.call("POST", PODS, dict, pod)


@pytest.mark.parametrize(
    ("host", "pod"), [("berth-7d4f-x2", "berth-7d4f-x2"), ("node-1", "kube-scheduler-node-1")]
)
async def test_the_pod_of_the_leader_is_asked(arguments_file: Path, host: str, pod: str) -> None:
    async with serve(0) as url, Client(Connection(url)) as client:
        await lead(client, f"{host}_7f3c")
        await run_pod(client, pod)
        async with port_forward(Connection(url), LEASE, "file", "") as server:
            assert server == "https://127.0.0.1:4321"
            command = arguments_file.read_text().split()  # noqa: ASYNC240 - a few bytes
    flags = ["--kubeconfig=file", "port-forward", "--namespace=kube-system"]
    assert command == [*flags, f"pod/{pod}", ":10259"]


@pytest.mark.parametrize(
    ("holder", "problem"),
    [("", "has no holder"), ("host_1", "the leader host_1 is no pod in the namespace kube-system")],
)
async def test_a_leader_that_is_no_pod(holder: str, problem: str) -> None:
    async with serve(0) as url, Client(Connection(url)) as client:
        await lead(client, holder)
        with pytest.raises(NoLeaderError, match=problem):
            async with port_forward(Connection(url), LEASE, None, ""):
                pass


async def test_without_a_lease_or_a_kubeconfig() -> None:
    async with serve(0) as url:
        with pytest.raises(NoLeaderError, match="not found"):
            async with port_forward(Connection(url), LEASE, None, ""):
                pass
    with pytest.raises(NoLeaderError, match="expected a kubeconfig"):
        async with port_forward(None, LEASE, None, ""):
            pass
