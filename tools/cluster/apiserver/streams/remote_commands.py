"""Exec and attach: a command of a script, between its streams, whatever the protocol."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from ....kubernetes.api.types.api_documents import Document
from ....kubernetes.kubelet.scripts.commands import Outcome
from ....kubernetes.kubelet.scripts.script_rules import Runner
from .command_streams import CommandStreams
from .pod_logs import ContainerLog
from .until_first import until_first

_CTRL_C = b"\x03"
_KEYS = re.compile(b"[\x03\x04]")
_INTERRUPTED = 130  # 128 and the number of SIGINT
_SUCCESS = {"metadata": {}, "status": "Success"}


class RemoteCommand(msgspec.Struct, frozen=True):
    """A command that a client runs in a container, or the container itself that it is attached to.

    `does` is an outcome, a function, or for a client that is attached without a script the log
    that it sees. `problem` is the reason why the command cannot be run. `ended` is told the exit
    code of what has ended by itself.
    """

    pod: Document
    container: str
    command: Sequence[str]
    tty: bool
    does: Outcome | Runner | ContainerLog | None
    problem: str = ""
    ended: Callable[[int], None] | None = None

    async def run(self, streams: CommandStreams, *, with_status: bool) -> None:
        """Runs the command until it ends or the client leaves, and tells the client how it ended:
        with a Status, or in earlier protocols with the message of one that failed.
        """
        await until_first(streams.receive(), self._work(streams, with_status=with_status))

    async def _work(self, streams: CommandStreams, *, with_status: bool) -> None:
        with suppress(ConnectionResetError, TimeoutError):
            await streams.open()
            status = await self._carry_out(streams)
            text = b"" if status is _SUCCESS else str(status["message"]).encode()
            await streams.finish(msgspec.json.encode(status) if with_status else text)

    async def _carry_out(self, streams: CommandStreams) -> Document:
        """Does what the script says. Returns the Status that the client gets."""
        if self.does is None:
            return _failed(self.problem)
        if isinstance(self.does, ContainerLog):
            await self.does.write_to(lambda data: streams.send("stdout", data))
            return _SUCCESS
        if isinstance(self.does, Outcome):
            code = await _play(self.does, streams, tty=self.tty)
        else:
            try:
                code = await self.does(HollowProcess(self, streams))
            except ConnectionResetError:
                raise
            except Exception as problem:  # noqa: BLE001  # a function is the user's, and may raise any
                return _failed(f"{type(problem).__name__}: {problem}")
        if self.ended is not None:
            self.ended(code)
        return _exited(code) if code else _SUCCESS


class HollowProcess:
    """What a function that stands for a command sees of it."""

    def __init__(self, run: RemoteCommand, streams: CommandStreams) -> None:
        self._streams = streams
        self.pod = run.pod
        self.container = run.container
        self.command = run.command
        self.tty = run.tty

    @property
    def size(self) -> tuple[int, int] | None:
        return self._streams.size

    async def read(self) -> bytes:
        return await self._streams.stdin.read()

    async def write(self, data: bytes) -> None:
        await self._streams.send("stdout", data)

    async def write_error(self, data: bytes) -> None:
        # a terminal has one output
        await self._streams.send("stdout" if self.tty else "stderr", data)


async def _play(outcome: Outcome, streams: CommandStreams, *, tty: bool) -> int:
    """Does what an outcome says. Returns the exit code. On a terminal, Ctrl-D ends stdin, and
    Ctrl-C the command.
    """
    if outcome.seconds:
        await asyncio.sleep(outcome.seconds)
    while outcome.echo and (data := await streams.stdin.read()):
        ended = _KEYS.search(data) if tty else None
        await streams.send("stdout", data[: ended.start()] if ended else data)
        if ended and ended[0] == _CTRL_C:
            return _INTERRUPTED
        if ended:
            break
    if outcome.output:
        await streams.send("stdout", outcome.output)
    if outcome.stderr:
        await streams.send("stderr", outcome.stderr.encode("utf-8", "replace"))
    return outcome.exit_code


def _exited(code: int) -> Document:
    why = f"command terminated with exit code {code}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: {why}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _failed(why: str) -> Document:
    """Returns the Status of a command that could not be run."""
    message = f"error executing command in container: {why}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {message}",
        "reason": "InternalError",
        "details": {"causes": [{"message": message}]},
        "code": 500,
    }
