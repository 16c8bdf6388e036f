"""Finds the leader's pod through the lease, and reaches it through `kubectl port-forward`."""

from __future__ import annotations

import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
from anyio.streams.text import TextReceiveStream

from berth.actors.client.read_only import ReadOnlyClient
from berth.actors.client.rest import (
    ApiError,
    Connection,
    ConnectionFailedError,
)
from berth.actors.scheduling.kube.coordination import Lease

PORT = 10259
START_SECONDS = 15.0
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")


class NoLeaderError(Exception):
    """The leader cannot be found or reached."""


@asynccontextmanager
async def port_forward(
    connection: Connection | None, lease: str, kubeconfig: str | None, context: str
) -> AsyncIterator[str]:
    """Yields the URL at which the holder of the lease (NAMESPACE/NAME) answers, for the block.
    Raises NoLeaderError.
    """
    namespace, _, name = lease.partition("/")
    if connection is None:
        raise NoLeaderError("--leader: expected a kubeconfig, found none")
    pod = await _leading_pod(connection, namespace, name)
    flags = [f"--kubeconfig={kubeconfig}"] * bool(kubeconfig) + [f"--context={context}"] * bool(
        context
    )
    command = ["kubectl", *flags, "port-forward", f"--namespace={namespace}", f"pod/{pod}"]
    try:
        process = await anyio.open_process(
            [*command, f":{PORT}"], stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
    except OSError as problem:
        raise NoLeaderError(f"kubectl: {problem.strerror}") from None
    async with process:
        try:
            yield f"https://127.0.0.1:{await _local_port(process, ' '.join(command))}"
        finally:
            process.terminate()


async def _leading_pod(connection: Connection, namespace: str, name: str) -> str:
    """Returns the name of the leader's pod. The holder's identity is HOST_UUID. The host name of a
    pod is its name, except in the host's network, where a static pod is called kube-scheduler-HOST.
    """
    pods = f"/api/v1/namespaces/{namespace}/pods"
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
    try:
        async with ReadOnlyClient(connection) as client:
            lease = await client.call("GET", path, Lease)
            host = lease.spec.holder_identity.rpartition("_")[0]
            if not host:
                raise NoLeaderError(f"the lease {namespace}/{name} has no holder")
            for pod in (host, f"{name}-{host}"):
                try:
                    await client.call("GET", f"{pods}/{pod}", dict)
                except ApiError as refused:
                    if refused.code != 404:
                        raise
                else:
                    return pod
    except (ApiError, ConnectionFailedError) as problem:
        raise NoLeaderError(str(problem)) from None
    raise NoLeaderError(
        f"the leader {lease.spec.holder_identity} is no pod in the namespace {namespace}; give its"
        " address with --server"
    )


async def _local_port(process: anyio.abc.Process, command: str) -> str:
    """Returns the local port that kubectl has chosen."""
    assert process.stdout is not None
    output = ""
    with anyio.move_on_after(START_SECONDS):
        async for text in TextReceiveStream(process.stdout):
            output += text
            match = _FORWARDING.search(output)
            if match:
                return match[1]
    raise NoLeaderError(f"{command}: {' '.join(output.split()) or 'no answer in time'}")
