"""Which script is a pod's: that of its annotation, or else that of the first rule for it.

Rules come from whoever started the server: a scenario, or a test. A rule may have functions in
place of text. Annotations come from any user of the API, and are text alone.

    berth.dev/logs, logs.berth.dev/<container>             the log; see logs.py
    berth.dev/previous-logs, previous-logs.berth.dev/<container>    that of the run before
    berth.dev/exec, exec.berth.dev/<container>             the commands; see commands.py
    berth.dev/attach, attach.berth.dev/<container>         what an attached client sees: one outcome
    berth.dev/ports                                        the ports; see ports.py
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from berth.actors.scheduling.kube.labels import EVERYTHING, Selector

from ...api.types.api_documents import Document
from .commands import CommandTable, Outcome, ScriptError, read_table, read_text_outcome
from .ports import AllowedPorts, read_ports

LOGS, PREVIOUS_LOGS, EXEC, ATTACH = "logs", "previous-logs", "exec", "attach"
PORTS = "berth.dev/ports"


class Process(Protocol):
    """A command that runs in a hollow container, as a function sees it.

    `command` is empty for an attached client, and `size` is None, or the columns and rows of its
    terminal. `read` returns b"" at the end of stdin. All raise ConnectionResetError once the client
    has left.
    """

    pod: Document
    container: str
    command: Sequence[str]
    tty: bool

    @property
    def size(self) -> tuple[int, int] | None: ...

    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    async def write_error(self, data: bytes) -> None: ...


# Runs a command; returns its exit code.
Runner = Callable[[Process], Awaitable[int]]
# Returns the script of a container's log, given the pod, the container and if it is the run before.
LogSource = Callable[[Document, str, bool], str]
# Returns the port of this machine that stands for a port of a pod; None for no port.
PortSource = Callable[[Document, int], int | None]


class ScriptRule(msgspec.Struct, frozen=True):
    """The scripts of the containers that a rule selects; None where it has none.

    `namespaces` and `containers` are all of them if they are empty.
    """

    selector: Selector = EVERYTHING
    namespaces: Sequence[str] = ()
    containers: Sequence[str] = ()
    logs: str | LogSource | None = None
    exec: CommandTable | Runner | None = None
    attach: Outcome | Runner | None = None
    ports: Mapping[int, int] | PortSource | None = None

    def concerns(self, pod: Document, container: str) -> bool:
        metadata = pod["metadata"]
        return (
            (not self.namespaces or metadata.get("namespace") in self.namespaces)
            and (not self.containers or not container or container in self.containers)
            and self.selector.matches(metadata.get("labels") or {})
        )


class Scripts:
    """The scripts of all pods. `allowed` are the ports that annotations may name."""

    def __init__(
        self, rules: Sequence[ScriptRule] = (), allowed: AllowedPorts | None = None
    ) -> None:
        self.rules = list(rules)
        self._allowed = AllowedPorts() if allowed is None else allowed

    def logs(self, pod: Document, container: str, *, previous: bool) -> str | LogSource:
        """Returns the script of a log, or the function that makes it."""
        text = _annotation(pod, container, PREVIOUS_LOGS) if previous else None
        text = _annotation(pod, container, LOGS) if text is None else text
        if text is not None:
            return text
        for rule in self.rules:
            if rule.logs is not None and rule.concerns(pod, container):
                return rule.logs
        return ""

    def command(
        self, pod: Document, container: str, command: Sequence[str]
    ) -> Outcome | Runner | None:
        """Returns what a command does; None if no script says so. Raises ScriptError."""
        text = _annotation(pod, container, EXEC)
        if text is not None:
            found = read_table(text).find(command)
            if found is not None:
                return found
        for rule in self.rules:
            if rule.exec is None or not rule.concerns(pod, container):
                continue
            if not isinstance(rule.exec, CommandTable):
                return rule.exec
            if (found := rule.exec.find(command)) is not None:
                return found
        return None

    def attach(self, pod: Document, container: str) -> Outcome | Runner | None:
        """Returns what an attached client sees; None if no script says so. Raises ScriptError."""
        text = _annotation(pod, container, ATTACH)
        if text is not None:
            return read_text_outcome(text)
        for rule in self.rules:
            if rule.attach is not None and rule.concerns(pod, container):
                return rule.attach
        return None

    def port(self, pod: Document, port: int) -> int | None:
        """Returns the port of this machine that stands for a port of a pod; None if there is none.

        Raises ScriptError if an annotation names one that it may not name.
        """
        text = (pod["metadata"].get("annotations") or {}).get(PORTS)
        if text is not None and (local := read_ports(text).get(port)) is not None:
            if local not in self._allowed:
                raise ScriptError(f"{PORTS}: port {local} of this machine is not allowed")
            return local
        for rule in self.rules:
            if rule.ports is not None and rule.concerns(pod, ""):
                found = rule.ports(pod, port) if callable(rule.ports) else rule.ports.get(port)
                if found is not None:
                    return found
        return None


def _annotation(pod: Document, container: str, name: str) -> str | None:
    annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    own = annotations.get(f"{name}.berth.dev/{container}")
    return annotations.get(f"berth.dev/{name}") if own is None else own
