"""The installed kubectl, and berth commands that keep running and serve it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import yaml

from tests.kit import paced_berth
from tests.kit.forks import fork

SKEW = re.compile(r"WARNING: version difference between client .*\n")


class Kubectl:
    def __init__(self, config: Path, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "KUBECONFIG": str(config), "HOME": str(folder)}
        self._server = ""

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = ["kubectl", *arguments]
        return subprocess.run(
            command,
            input=stdin,
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Returns its standard output. Fails the test if the command fails or prints to standard
        error.
        """
        done = self.run(*arguments, stdin=stdin)
        assert (done.returncode, SKEW.sub("", done.stderr)) == (0, ""), (arguments, done)
        return done.stdout

    def refused(self, *arguments: str, stdin: str = "") -> str:
        """Returns the standard error of a command that must fail."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode != 0, done
        return done.stderr

    def read(self, *arguments: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self("get", *arguments, "-o", "json"))
        return document

    def call(self, method: str, path: str, body: Any = None, **query: str) -> dict[str, Any]:
        """Sends a request to kubectl's server, without a process: for what surrounds a command."""
        if not self._server:
            config = yaml.safe_load(Path(self.environment["KUBECONFIG"]).read_text())
            self._server = config["clusters"][0]["cluster"]["server"]
        url = f"{self._server}{path}?{urlencode(query)}"
        data = None if body is None else json.dumps(body).encode()
        request = Request(url, data, {"Content-Type": "application/json"}, method=method)
        with urlopen(request, timeout=60) as answer:
            document: dict[str, Any] = json.load(answer)
            return document


class Daemon:
    """A berth command that keeps running until `end`. `module` is as in `fork`."""

    def __init__(self, folder: Path, *arguments: str, module: str = "berth.actors") -> None:
        self.config = folder / "config"
        self.config.unlink(missing_ok=True)
        self.errors = (folder / "stderr").open("w+")
        with Path(os.devnull).open("r+") as nothing:
            self.process = fork(
                *arguments,
                "--kubeconfig-out",
                str(self.config),
                folder=Path.cwd(),
                environment=os.environ,
                files=(nothing.fileno(), nothing.fileno(), self.errors.fileno()),
                module=module,
            )
        until(self.written)
        self.kubectl = Kubectl(self.config, folder)

    def written(self) -> bool:
        assert self.process.poll() is None, self.complaints()
        return self.config.exists() and self.config.stat().st_size > 0

    def complaints(self) -> str:
        self.errors.flush()
        self.errors.seek(0)
        return self.errors.read()

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        code = self.process.wait(60)
        self.errors.close()
        return code


@contextmanager
def bare_demo(folder: Path, nodes: int = 2, *options: str) -> Iterator[Daemon]:
    """Runs a toy cluster without pods. Neither it nor its programs may fail at all."""
    (folder / "bare.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: bare}}")
    files = ("-f", str(folder / "bare.yaml"))
    daemon = Daemon(folder, "demo", "--keep", "--nodes", str(nodes), *files, *options)
    try:
        yield daemon
    finally:
        said, code = daemon.complaints(), daemon.end()
    assert code == 0
    assert "Traceback" not in said


class PacedDaemon(Daemon):
    """One whose time runs faster while somebody waits for it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        super().__init__(folder, *arguments, module=paced_berth.__name__)

    @contextmanager
    def hurried(self) -> Iterator[None]:
        self.process.send_signal(signal.SIGUSR1)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGUSR2)


def until(holds: Callable[[], bool]) -> None:
    """Polls until the condition holds: other processes offer nothing to wait for."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.02)
