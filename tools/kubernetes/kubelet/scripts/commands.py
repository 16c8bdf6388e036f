"""Tables of commands: what a command in a hollow container prints, and how it exits.

A table is YAML. A key is a command as a shell writes it; the last word `*` stands for any further
words, so that `"*"` alone is every command. A value is what the command prints, or a mapping:

    date: Thu Jan  1 00:00:00 UTC 1970
    ls /: |
      bin
      etc
    cat: {echo: true}                        # copies stdin to stdout until its end
    grep *: {stderr: no match, exitCode: 1}
    sleep *: {seconds: 2}                    # before it prints and exits
    tar cf - /data: {stdoutBase64: H4sI…}

A key without `*` counts before those with one, and of these the longest. Text that a value gives
alone ends with a line end, whether it is written or not; that of a mapping is as it stands.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from berth.actors.scheduling.kube.yaml_documents import YamlError, documents

MOST_SECONDS = 3600.0
_REST = "*"
_EXPECTED = "expected text, or a mapping of stdout, stdoutBase64, stderr, exitCode, seconds, echo"


class ScriptError(ValueError):
    """A script that cannot be used; the message says where it is wrong."""


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What a command does: waits, copies stdin if it `echo`es, prints and exits."""

    stdout: str = ""
    stdout_base64: str = ""
    stderr: str = ""
    exit_code: int = 0
    seconds: float = 0.0
    echo: bool = False

    @property
    def output(self) -> bytes:
        return self.stdout.encode("utf-8", "replace") + base64.b64decode(self.stdout_base64)


class CommandTable:
    """The outcomes of commands."""

    def __init__(self, entries: Mapping[str, Any]) -> None:
        """Reads the entries of a table. Raises ScriptError."""
        self._exact: dict[tuple[str, ...], Outcome] = {}
        self._beginnings: dict[tuple[str, ...], Outcome] = {}
        for key, value in entries.items():
            try:
                words = tuple(shlex.split(key))
            except ValueError as problem:
                raise ScriptError(f"{key[:80]!r}: {problem}") from None
            if words[-1:] == (_REST,):
                self._beginnings[words[:-1]] = read_outcome(value, key)
            else:
                self._exact[words] = read_outcome(value, key)

    def find(self, command: Sequence[str]) -> Outcome | None:
        """Returns the outcome of a command; None if the table does not have it."""
        words = tuple(command)
        if words in self._exact:
            return self._exact[words]
        for length in range(len(words), -1, -1):
            if words[:length] in self._beginnings:
                return self._beginnings[words[:length]]
        return None


def read_table(text: str) -> CommandTable:
    """Reads a table. Raises ScriptError."""
    entries = _yaml(text)
    if not isinstance(entries, dict):
        raise ScriptError("expected a mapping of commands")
    return CommandTable(entries)


def read_text_outcome(text: str) -> Outcome:
    """Reads one outcome, as a table has them for its keys. Raises ScriptError."""
    return read_outcome(_yaml(text), "")


def read_outcome(value: Any, key: str) -> Outcome:
    """Reads a value of a table; `key` is the command, for errors. Raises ScriptError."""
    where = f"{key[:80]!r}: " if key else ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str) or value is None:
        return Outcome(stdout=f"{value.removesuffix(chr(10))}\n" if value else "")
    try:
        outcome = msgspec.convert(value, Outcome)
        base64.b64decode(outcome.stdout_base64, validate=True)
    except msgspec.ValidationError as problem:
        raise ScriptError(f"{where}{_EXPECTED}: {problem}") from None
    except ValueError:
        raise ScriptError(f"{where}stdoutBase64: expected base64") from None
    if not 0 <= outcome.exit_code <= 255:
        raise ScriptError(f"{where}exitCode: expected 0 to 255, got {outcome.exit_code}")
    if not 0 <= outcome.seconds <= MOST_SECONDS:
        raise ScriptError(f"{where}seconds: expected 0 to {MOST_SECONDS:.0f}")
    return outcome


def only_document(text: bytes) -> Any:
    """Returns the one document of a text in YAML. Raises ScriptError and YamlError."""
    read = [document for document in documents(text) if document is not None]
    if len(read) != 1:
        raise ScriptError(f"expected one document, got {len(read)}")
    return read[0]


def _yaml(text: str) -> Any:
    try:
        return only_document(text.encode())
    except YamlError as problem:
        raise ScriptError(str(problem)) from None
