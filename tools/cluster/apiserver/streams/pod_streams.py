"""The requests for streams into the containers of a pod: log, exec, attach, portforward."""

from __future__ import annotations

from functools import partial
from urllib.parse import parse_qs

import msgspec

from ....kubernetes.api.access.rights import check_right, may_all
from ....kubernetes.api.access.users import Requester
from ....kubernetes.api.requests.list_options import is_on
from ....kubernetes.api.requests.request import HttpRequest
from ....kubernetes.api.requests.request_targets import RequestTarget, act_of
from ....kubernetes.api.store import Store
from ....kubernetes.api.types.api_documents import Document, RefusedError
from ....kubernetes.kubelet.scripts.commands import ScriptError
from ....kubernetes.kubelet.scripts.container_states import check_host, container_of, is_running
from ....kubernetes.kubelet.scripts.log_options import LogOptions, log_options
from ....kubernetes.kubelet.scripts.script_rules import Scripts
from ....kubernetes.kubelet.scripts.small_programs import (
    Surroundings,
    own_outcome,
    program_outcome,
)
from ..http import Response, Streamed, Upgrade
from ..upgraded_connection import UpgradedConnection
from . import spdy_streams, web_channels
from .container_ends import end_container, restarts_always
from .pod_logs import ContainerLog
from .port_forwards import ForwardedPod, ports_in
from .remote_commands import RemoteCommand
from .web_channels import chosen_protocol
from .websocket import is_websocket

_METHODS = ("GET", "POST")
_TEXT = "text/plain"


class PodStreams:
    """Answers requests for streams of the pods in a store, as scripts say."""

    def __init__(self, store: Store, scripts: Scripts) -> None:
        self._store = store
        self._scripts = scripts

    def answer(
        self, request: HttpRequest, target: RequestTarget, user: Requester
    ) -> Response | Streamed | Upgrade:
        """Answers a request for one of the subresources STREAMS. Raises RefusedError."""
        allowed = ("GET",) if target.subresource == "log" else _METHODS
        if request.method not in allowed:
            message = "the server does not allow this method on the requested resource"
            raise RefusedError(405, "MethodNotAllowed", message)
        if target.subresource == "log":
            return self._log(request, target)
        if request.method == "GET" and not may_all(self._store, user):
            # A WebSocket begins with GET, but what it does is more than to read.
            act = act_of(request)
            check_right(self._store, user, msgspec.structs.replace(act, verb="create"))
        pod = self._store.get(target.kind, target.namespace, target.name)
        if target.subresource == "portforward":
            return self._port_forward(request, pod)
        return self._command(request, pod, target.subresource)

    def _log(self, request: HttpRequest, target: RequestTarget) -> Response | Streamed:
        now = self._store.outside.wall().timestamp()
        options = log_options(request.query, target.name, now)
        pod = self._store.get(target.kind, target.namespace, target.name)
        container = container_of(pod, options.container)["name"]
        if not pod["spec"].get("nodeName"):
            return Response(b"", 204, _TEXT)
        log = ContainerLog(self._store, self._scripts, pod, container, options)
        log.check()
        return Streamed(lambda stream: log.write_to(stream.write), _TEXT)

    def _command(self, request: HttpRequest, pod: Document, subresource: str) -> Response | Upgrade:
        asked = {name: is_on(request.query, name) for name in ("stdin", "stdout", "stderr")}
        container = container_of(pod, request.query.get("container", ""))
        check_host(pod)
        tty = is_on(request.query, "tty")
        if subresource == "attach":
            tty = tty and bool(container.get("tty"))
        if tty:
            asked["stderr"] = False
        if not any(asked.values()):
            message = "you must specify at least 1 of stdin, stdout, stderr"
            raise RefusedError(400, "BadRequest", message)
        if not is_running(pod, container["name"]):
            return Response(f'container not found ("{container["name"]}")'.encode(), 500, _TEXT)
        words = parse_qs(request.parameters, keep_blank_values=True).get("command", [])
        make = self._attached if subresource == "attach" else self._executed
        command = make(pod, container, words, tty=tty)
        if is_websocket(request.headers):
            protocol = chosen_protocol(request, web_channels.COMMAND_PROTOCOLS)
            headers = web_channels.accepting_headers(request, protocol)
            run = partial(_run_on_websocket, command, protocol, asked)
            return Upgrade(headers, run)
        if spdy_streams.is_spdy(request.headers):
            headers = spdy_streams.accepting_headers(request, spdy_streams.COMMAND_PROTOCOLS)
            protocol = headers.get(spdy_streams.PROTOCOL_HEADER, "")
            wanted = {**asked, "resize": tty and protocol[:3] in ("v3.", "v4.")}
            return Upgrade(headers, partial(_run_on_spdy, command, protocol, wanted))
        raise _no_upgrade()

    def _executed(
        self, pod: Document, container: Document, words: list[str], *, tty: bool
    ) -> RemoteCommand:
        if not words:
            raise RefusedError(400, "BadRequest", "you must specify at least 1 command")
        name = container["name"]
        problem = (
            f'exec: "{words[0][:200]}": no script says what it does: the container is hollow, '
            "and neither the annotation berth.dev/exec nor a scenario has this command"
        )
        does = None
        try:
            does = self._scripts.command(pod, name, words)
            if does is None:
                does = program_outcome(words, self._around(pod, container))
        except ScriptError as wrong:
            problem = f"annotation berth.dev/exec: {wrong}"
        return RemoteCommand(pod, name, words, tty, does, problem)

    def _attached(
        self, pod: Document, container: Document, words: list[str], *, tty: bool
    ) -> RemoteCommand:
        """Returns what a client sees that is attached: what a script says, or the container's own
        process if it runs once and needs no script, or else the log from now on.
        """
        name = container["name"]
        try:
            does = self._scripts.attach(pod, name)
        except ScriptError as wrong:
            problem = f"annotation berth.dev/attach: {wrong}"
            return RemoteCommand(pod, name, (), tty, None, problem)
        if does is None and not restarts_always(pod):
            does = own_outcome(self._around(pod, container))
        if does is not None:
            ended = partial(end_container, self._store, pod, name)
            return RemoteCommand(pod, name, (), tty, does, ended=ended)
        options = LogOptions(follow=True, tail=0)
        log = ContainerLog(self._store, self._scripts, pod, name, options)
        return RemoteCommand(pod, name, (), tty, log)

    def _around(self, pod: Document, container: Document) -> Surroundings:
        return Surroundings(pod, container, self._store.outside.wall())

    def _port_forward(self, request: HttpRequest, pod: Document) -> Upgrade:
        forwarded = ForwardedPod(pod, self._scripts)
        ports = ports_in(request.parameters)
        if is_websocket(request.headers):
            served = (spdy_streams.TUNNEL_PROTOCOL, *web_channels.PORT_PROTOCOLS)
            protocol = chosen_protocol(request, served)
            headers = web_channels.accepting_headers(request, protocol)
            if protocol == spdy_streams.TUNNEL_PROTOCOL:
                check_host(pod)
                return Upgrade(headers, forwarded.run_tunnel)
            if not ports:
                raise RefusedError(400, "BadRequest", 'query parameter "ports" is required')
            run = partial(forwarded.run_channels, protocol=protocol, ports=ports)
            return Upgrade(headers, run)
        check_host(pod)
        if spdy_streams.is_spdy(request.headers):
            served_on_spdy = (spdy_streams.PORT_PROTOCOL, "")
            headers = spdy_streams.accepting_headers(request, served_on_spdy)
            return Upgrade(headers, forwarded.run_spdy)
        raise _no_upgrade()


async def _run_on_websocket(
    command: RemoteCommand,
    protocol: str,
    asked: dict[str, bool],
    connection: UpgradedConnection,
) -> None:
    streams = web_channels.WebCommandStreams(connection, protocol, asked)
    await command.run(streams, with_status=web_channels.has_status(protocol))


async def _run_on_spdy(
    command: RemoteCommand,
    protocol: str,
    asked: dict[str, bool],
    connection: UpgradedConnection,
) -> None:
    streams = spdy_streams.SpdyCommandStreams(connection, asked)
    await command.run(streams, with_status=protocol.startswith("v4."))


def _no_upgrade() -> RefusedError:
    return RefusedError(400, "BadRequest", "Upgrade request required")
