"""A process that has imported `berth`, and forks one `berth` after the other: each is spared the
most of a second that it takes to import NumPy, aiohttp and the rest. tests/kit/forks.py asks it.

It reads requests from a socket, whose number is its argument. A request is a line of JSON with the
module to run, the arguments, the folder and the environment of a process, and four files: its
standard input, output and error, and a socket on which the server answers with the process id, and
with the exit code once the process has ended. It ends with the last of its clients.
"""

from __future__ import annotations

import json
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from berth.actors.cli.commands import GROUP
from berth.actors.process.packages import entries_of

NUMBER = struct.Struct("i")
PATH = sys.path[1:]  # without the folder where Python was started


class Server:
    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._wakes, wake = socket.socketpair()
        wake.setblocking(False)
        self._open = [requests, self._wakes, wake]
        self._answers: dict[int, socket.socket] = {}
        signal.set_wakeup_fd(wake.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> list[str]:
        """Returns in the processes that it forks: the arguments of each."""
        selector = selectors.DefaultSelector()
        selector.register(self._requests, selectors.EVENT_READ)
        selector.register(self._wakes, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is self._wakes:
                    self._wakes.recv(4096)
                    self._answer_ended()
                    continue
                read = socket.recv_fds(self._requests, 1 << 16, 4)
                line, files = read[0], read[1]
                while line and not line.endswith(b"\n"):
                    line += self._requests.recv(1 << 16)
                if not line:
                    sys.exit()
                request = json.loads(line)
                _load(request["arguments"])
                answers = socket.socket(fileno=files.pop())
                pid = os.fork()
                if pid == 0:
                    selector.close()
                    answers.close()
                    self._become(request, files)
                    return [request["module"], *request["arguments"]]
                for file in files:
                    os.close(file)
                self._answers[pid] = answers
                answers.send(NUMBER.pack(pid))

    def _answer_ended(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                with self._answers.pop(pid) as answers, suppress(OSError):  # nobody may listen
                    answers.send(NUMBER.pack(os.waitstatus_to_exitcode(status)))

    def _become(self, request: dict[str, Any], files: list[int]) -> None:
        """Makes this process look like one that was just started."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        for each in (*self._open, *self._answers.values()):
            each.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
        vars(sys).update(__stdin__=sys.stdin, __stdout__=sys.stdout, __stderr__=sys.stderr)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        packages = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
        sys.path[:] = [str(Path.cwd()), *packages, *PATH]


def _load(arguments: list[str]) -> None:
    """Imports the module of a command before the first process that runs it is forked."""
    for entry in entries_of(GROUP).select(name=arguments[0] if arguments else ""):
        entry.load()


if __name__ == "__main__":
    sys.argv = Server(socket.socket(fileno=int(sys.argv[1]))).serve()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
