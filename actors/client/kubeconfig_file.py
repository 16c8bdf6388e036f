"""Kubeconfig files (v1 Config): their fields, how they are read, and how several are merged.

Values must have the right types. Unknown fields are ignored, as in kubectl; null means that a field
is absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import yaml

from .credentials import KubeconfigError, reason

T = TypeVar("T")


class Extension(msgspec.Struct, frozen=True):
    name: str
    extension: Any = None


class Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    server: str | None = None
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    proxy_url: str | None = None
    extensions: tuple[Extension, ...] | None = None


class Variable(msgspec.Struct, frozen=True):
    name: str
    value: str


class Exec(msgspec.Struct, frozen=True, rename="camel"):
    command: str | None = None
    args: tuple[str, ...] | None = None
    env: tuple[Variable, ...] | None = None
    api_version: str | None = None
    install_hint: str | None = None
    provide_cluster_info: bool | None = None
    interactive_mode: str | None = None


class User(msgspec.Struct, frozen=True, rename="kebab"):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    as_: str | None = msgspec.field(default=None, name="as")
    as_uid: str | None = None
    as_groups: tuple[str, ...] | None = None
    as_user_extra: dict[str, tuple[str, ...]] | None = None
    username: str | None = None
    password: str | None = None
    auth_provider: Any = None
    exec: Exec | None = None

    def __repr__(self) -> str:
        return "User(...)"


class Context(msgspec.Struct, frozen=True):
    cluster: str | None = None
    user: str | None = None


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: Cluster | None = None


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: User | None = None


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: Context | None = None


class _Config(msgspec.Struct, frozen=True, rename="kebab"):
    kind: str | None = None
    api_version: str | None = msgspec.field(default=None, name="apiVersion")
    current_context: str | None = None
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None


class Entry(msgspec.Struct, Generic[T], frozen=True):
    """A cluster, a user or a context, with the file and the list that contain it."""

    file: Path
    field: str
    name: str
    value: T

    def at(self, field: str) -> str:
        """Returns the path of a field, for error messages."""
        return f"{self.file}: {self.field}[{self.name}].{field}"

    def beside(self, path: str) -> Path:
        """Resolves a path relative to the folder of the file."""
        return self.file.parent / path


class MergedConfig:
    """The entries of all files by name; if several files have a name, the first of them applies."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._current: tuple[Path, str] | None = None
        self._clusters: dict[str, Entry[Cluster]] = {}
        self._users: dict[str, Entry[User]] = {}
        self._contexts: dict[str, Entry[Context]] = {}
        for file in files:
            config = _read(file)
            if config.current_context and self._current is None:
                self._current = (file, config.current_context)
            clusters = [
                Entry(file, "clusters", e.name, e.cluster or Cluster())
                for e in config.clusters or ()
            ]
            users = [Entry(file, "users", e.name, e.user or User()) for e in config.users or ()]
            contexts = [
                Entry(file, "contexts", e.name, e.context or Context())
                for e in config.contexts or ()
            ]
            self._clusters = {**_by_name(clusters), **self._clusters}
            self._users = {**_by_name(users), **self._users}
            self._contexts = {**_by_name(contexts), **self._contexts}

    def context(self, name: str) -> Entry[Context]:
        """Returns the context with this name, or the current context for ""."""
        where = ", ".join(map(str, self._files))
        if name:
            return _existing(self._contexts, name, f"{where}: contexts", "context")
        if self._current is None:
            raise KubeconfigError(
                f"{where}: current-context: expected the name of a context, got none"
            )
        file, current = self._current
        return _existing(self._contexts, current, f"{file}: current-context", "context")

    def cluster(self, context: Entry[Context]) -> Entry[Cluster]:
        return _existing(
            self._clusters, context.value.cluster or "", context.at("cluster"), "cluster"
        )

    def user(self, context: Entry[Context]) -> Entry[User]:
        return _existing(self._users, context.value.user or "", context.at("user"), "user")


def merged(paths: Sequence[Path], *, may_be_missing: bool) -> MergedConfig:
    """Reads and merges the files; if they `may_be_missing`, at least one must exist.

    Raises KubeconfigError.
    """
    existing = [path for path in paths if path.exists()] if may_be_missing else paths
    if not existing:
        raise KubeconfigError(
            "$KUBECONFIG: expected a kubeconfig, but none of these files exists: "
            f"{', '.join(map(str, paths))}"
        )
    return MergedConfig([path.absolute() for path in existing])


def _by_name(entries: list[Entry[T]]) -> dict[str, Entry[T]]:
    names: dict[str, Entry[T]] = {}
    for entry in entries:
        if entry.name in names:
            raise KubeconfigError(
                f"{entry.file}: {entry.field}: expected each name once, got {entry.name!r} twice"
            )
        names[entry.name] = entry
    return names


def _existing(entries: dict[str, Entry[T]], name: str, where: str, kind: str) -> Entry[T]:
    entry = entries.get(name)
    if entry is None:
        expected = (
            f"one of {', '.join(sorted(entries))}"
            if entries
            else f"the name of a {kind}, but none is defined"
        )
        raise KubeconfigError(f"{where}: expected {expected}, got {name!r}")
    return entry


def _read(file: Path) -> _Config:
    try:
        text = file.read_bytes()
    except (OSError, ValueError) as problem:
        raise KubeconfigError(f"{file}: cannot be read: {reason(problem)}") from None
    try:
        document = yaml.safe_load(text)
    # PyYAML raises Python's own errors for values that do not match the type of their tag.
    except (
        yaml.YAMLError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as problem:
        raise KubeconfigError(f"{file}: expected YAML: {_problem_without_text(problem)}") from None
    if not isinstance(document, dict):
        raise KubeconfigError(
            f"{file}: expected a kubeconfig (kind: Config), got {type(document).__name__}"
        )
    try:
        config = msgspec.convert(document, _Config)
    except (msgspec.ValidationError, RecursionError) as problem:
        text_, _, path = reason(problem).replace(" | null`", "`").partition(" - at `")
        where = path.rstrip("`").removeprefix("$").lstrip(".")
        raise KubeconfigError(f"{file}: {where + ': ' if where else ''}{text_}") from None
    for field, expected, got in (
        ("kind", "Config", config.kind),
        ("apiVersion", "v1", config.api_version),
    ):
        if got and got != expected:
            raise KubeconfigError(f"{file}: {field}: expected {expected}, got {got!r}")
    return config


def _problem_without_text(problem: Exception) -> str:
    """Returns a problem and its place, without a quotation of the line, which may hold a secret."""
    if isinstance(problem, yaml.MarkedYAMLError) and problem.problem_mark is not None:
        return f"{problem.problem} at line {problem.problem_mark.line + 1}"
    return reason(problem)[:200]
