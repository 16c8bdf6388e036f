"""The scheduler that somebody runs beside a demo: the command that the demo tells."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

import msgspec
import yaml

from berth.actors.configuration.file import read_document
from berth.actors.configuration.plugin_files import files_offered
from berth.config.versions import CURRENT

from ...answers.terminal.feature_gates import version_asked


class OwnScheduler(msgspec.Struct, frozen=True):
    """The configuration file of the demo, if it has one, and options of `berth run`."""

    file: Path | None
    options: list[str]

    def command(self, kubeconfig: Path) -> str:
        """Returns the command that decides as the demo's scheduler would, for a shell. A
        configuration names the kubeconfig itself, so a copy that does is written beside it.
        """
        access = ["--kubeconfig", str(kubeconfig)]
        if self.file is not None:
            document = dict(read_document(self.file))
            connection = document.get("clientConnection") or {}
            document["clientConnection"] = {**connection, "kubeconfig": str(kubeconfig)}
            copy = kubeconfig.with_name("scheduler.yaml")
            copy.write_text(yaml.safe_dump(document), encoding="utf-8")
            access = ["--config", str(copy)]
        elif not files_offered():
            access += ["--plugin", "FILE:CLASS"]
        return shlex.join(["berth", "run", *access, *self.options])


def run_options(feature_gates: Iterable[str], secure_port: int, *, reloads: bool) -> list[str]:
    """Returns the options of `berth run` for what the demo was given. Its pages are as open as
    those of the demo's scheduler.
    """
    options = [f"--feature-gates={text}" for text in feature_gates]
    if version_asked() is not CURRENT:
        options.append(f"--emulated-version={version_asked().text}")
    if secure_port:
        options += ["--bind-address=127.0.0.1", f"--secure-port={secure_port}"]
        options.append("--authorization-always-allow-paths=/*")
    for text in files_offered():
        options += ["--plugin", text]
    return [*options, *(["--reload"] if reloads else [])]
