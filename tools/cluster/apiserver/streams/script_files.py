"""Files of scripts: what containers say and do whose pods have no annotation about it.

    scripts:
    - selector: {matchLabels: {app: web}}     # of labels; without it, every pod
      namespaces: [shop]                      # without it, every namespace
      containers: [main]                      # without it, every container
      logs: "started\n+1s ready"              # as in the annotation berth.dev/logs
      exec: {date: Thu Jan 1}                 # as in berth.dev/exec
      attach: hello                           # as in berth.dev/attach
      ports: {80: 18080}                      # ports of this machine for those of the pod
    - call: my_scripts:run                    # a function of a module, for exec and attach

The first entry that concerns a container and has what is asked for counts. A module is looked for
beside the file, too. Its function is a coroutine that takes a Process and returns its exit code.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from berth.actors.scheduling.kube.labels import EVERYTHING, SelectorError, from_label_selector
from berth.actors.scheduling.kube.meta import LabelSelector
from berth.actors.scheduling.kube.yaml_documents import YamlError

from ....kubernetes.kubelet.scripts.commands import (
    CommandTable,
    ScriptError,
    only_document,
    read_outcome,
)
from ....kubernetes.kubelet.scripts.ports import port_of
from ....kubernetes.kubelet.scripts.script_rules import Runner, ScriptRule
from ...named_functions import named_function


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    logs: str | None = None
    exec: dict[str, Any] | None = None
    attach: Any = msgspec.UNSET
    ports: dict[str, int] | None = None
    call: str = ""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    scripts: tuple[_Entry, ...] = ()


def read_scripts(file: Path) -> Sequence[ScriptRule]:
    """Reads a file of scripts. Raises ScriptError with the file and the field, and OSError."""
    try:
        entries = msgspec.convert(only_document(file.read_bytes()), _File).scripts
    except (YamlError, ScriptError, msgspec.ValidationError) as problem:
        raise ScriptError(f"{file}: {problem}") from None
    rules = []
    for number, entry in enumerate(entries):
        try:
            rules.append(_rule(entry, file.parent))
        except (ScriptError, SelectorError) as problem:
            raise ScriptError(f"{file}: scripts[{number}]: {problem}") from None
    return rules


def _rule(entry: _Entry, folder: Path) -> ScriptRule:
    called = _function(entry.call, folder) if entry.call else None
    if called is not None and (entry.exec is not None or entry.attach is not msgspec.UNSET):
        raise ScriptError("expected either call or exec and attach")
    ports = {port_of(port): port_of(str(local)) for port, local in (entry.ports or {}).items()}
    return ScriptRule(
        EVERYTHING if entry.selector is None else from_label_selector(entry.selector),
        entry.namespaces,
        entry.containers,
        entry.logs,
        called if entry.exec is None else CommandTable(entry.exec),
        called if entry.attach is msgspec.UNSET else read_outcome(entry.attach, "attach"),
        ports or None,
    )


def _function(text: str, folder: Path) -> Runner:
    try:
        return named_function(text, folder)
    except ValueError as problem:
        raise ScriptError(f"call: {problem}") from problem
