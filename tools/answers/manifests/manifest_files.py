"""Files and folders of manifests: the objects as they are written, each with its place.

A text is read as kubectl reads it: YAML whose documents are parted by lines of `---`, or JSON, also
several values one after another. A document that cannot be read does not stop the others. A long
document of a kind that nobody reads, as it says itself, is not parsed.
"""

from __future__ import annotations

import json
import re
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from glob import glob
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from berth.actors.scheduling.kube.yaml_documents import (
    MAX_DEPTH,
    RepeatedKey,
    YamlError,
    json_number,
    placed_documents,
)

SUFFIXES = (".yaml", ".yml", ".json")
STANDARD_INPUT = Path("-")
Document = dict[str, Any]
NOTHING = "expected an object with apiVersion, kind and metadata, got nothing"
LATER = "the later value counts"
_KUSTOMIZATION = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
_LONG = 4096  # bytes
_BEGINNING = 65_536  # bytes
_SEPARATOR = re.compile(rb"^---[ \t\r]*(?:#[^\n]*)?(?:\n|\Z)", re.MULTILINE)
_AT_MARGIN = re.compile(
    rb"^(apiVersion|kind):[ \t]+[\"']?([\w./-]+)[\"']?[ \t]*(?:#[^\n]*)?\r?$", re.MULTILINE
)
_BLANK = re.compile(r"\s*")


class ManifestError(ValueError):
    """A manifest cannot be used; the message names the file."""


class Findings(msgspec.Struct):
    """What is wrong with manifests: problems, which leave objects out, and warnings. If they are
    `strict`, the first of either raises ManifestError.
    """

    strict: bool = False
    problems: list[str] = []
    warnings: list[str] = []
    _untold: list[str] = []

    def problem(self, text: str) -> None:
        if self.strict:
            raise ManifestError(text) from None
        self.problems.append(text)
        self._untold.append(text)

    def warn(self, text: str, consequence: str) -> None:
        if self.strict:
            raise ManifestError(text)
        self.warnings.append(f"{text}: {consequence}")
        self._untold.append(self.warnings[-1])

    def untold(self) -> list[str]:
        """Returns the warnings and problems that were found since the last call."""
        lines, self._untold = self._untold, []
        return lines


class Reading(msgspec.Struct, frozen=True):
    """How manifests are read: whether with the sub-folders of folders, and what was found. With
    `everything`, objects that do not concern a scheduler are read too.
    """

    recursive: bool = False
    findings: Findings = msgspec.field(default_factory=Findings)
    everything: bool = False


STRICT = Reading(findings=Findings(strict=True))


class Text(msgspec.Struct, frozen=True):
    """A text of manifests. Messages name its place. `is_read` tells whether anybody reads objects
    of an apiVersion and kind.
    """

    content: bytes
    place: str
    is_read: Callable[[str, str], bool]
    is_kustomization: bool = False

    def objects(self, findings: Findings) -> Iterator[tuple[Document, str]]:
        """Yields the objects with their places; lists are split into their items."""
        for line, value in self._documents(findings):
            if value is not None:
                kustomized = self.is_kustomization and isinstance(value, dict)
                document = {**_KUSTOMIZATION, **value} if kustomized else value
                yield from objects_of(document, f"{self.place}:{line}", findings)

    def _documents(self, findings: Findings) -> Iterator[tuple[int, Any]]:
        if self.content.lstrip().startswith(b"{"):
            values = _json_values(self.content)
            if values is not None:
                for line, value, repeated in values:
                    for key in repeated:
                        findings.warn(f"{self.place}:{line}: the key {key} occurs twice", LATER)
                    yield line, value
                return
        for first, part in _yaml_parts(self.content):
            if not part.strip():
                continue
            said = _kind_at_margin(part)
            if said is not None and not self.is_read(*said):
                yield first, dict(zip(("apiVersion", "kind"), said, strict=True))
                continue
            yield from self._yaml(first, part, findings)

    def _yaml(self, first: int, part: bytes, findings: Findings) -> Iterator[tuple[int, Any]]:
        def repeated(line: int, again: RepeatedKey) -> None:
            if findings.strict:
                raise YamlError(line, str(again))
            findings.warn(f"{self.place}:{line}: {again}", LATER)

        try:
            yield from placed_documents(part, first, repeated)
        except YamlError as problem:
            findings.problem(f"{self.place}: cannot be read: {problem}")


def paths_of(text: str) -> list[Path]:
    """Returns the files that a text names as kubectl names them: a file, a folder, a pattern, or
    several of these with commas between them. Raises ManifestError if there is none.
    """
    if text == "-" or Path(text).exists():
        return [Path(text)]
    if "://" in text:
        raise ManifestError(f"{text} is a URL, and only files are read: curl -L URL | ... -f -")
    if "," in text:
        return [path for part in text.split(",") for path in paths_of(part)]
    matches = sorted(glob(text))  # noqa: PTH207 - Path.glob takes no absolute pattern
    if not matches:
        raise ManifestError(f"{text} does not exist")
    return [Path(match) for match in matches]


def texts_at(path: Path, is_read: Callable[[str, str], bool], reading: Reading) -> Iterator[Text]:
    """Yields the texts of a file or of the files of a folder; `-` is the standard input. Raises
    ManifestError for a folder without manifests.
    """
    for file in _manifest_files(path, recursive=reading.recursive) if path.is_dir() else (path,):
        place = place_of(file)
        try:
            text = _content(file)
        except OSError as problem:
            reading.findings.problem(f"{place}: cannot be read: {problem.strerror}")
            continue
        yield Text(text, place, is_read, file.stem == "kustomization")


def _content(path: Path) -> bytes:
    if path == STANDARD_INPUT:
        return _text_of(sys.stdin.buffer)
    with path.open("rb") as file:
        return _text_of(file)


def _text_of(file: BinaryIO) -> bytes:
    """Returns the content of a file, but only the beginning of one with a null byte, which no
    manifest has: a disk image has gigabytes, and a device may have no end. UTF-16 with a byte order
    mark, which PowerShell writes, is read as kubectl's FileVisitor reads it.
    """
    beginning = file.read(_BEGINNING)
    if beginning.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return (beginning + file.read()).decode("utf-16", "replace").encode()
    return beginning if b"\0" in beginning else beginning + file.read()


def place_of(path: Path) -> str:
    return "standard input" if path == STANDARD_INPUT else str(path)


def _manifest_files(path: Path, *, recursive: bool) -> list[Path]:
    """Returns the files of a folder. Raises ManifestError if it has none with manifests."""
    if files := _within(path.rglob("*") if recursive else path.iterdir()):
        return files
    expected = f"expected a folder with {', '.join(f'*{suffix}' for suffix in SUFFIXES)} files"
    below = (
        "" if recursive else "; its sub-folders have some: add -R" * bool(_within(path.rglob("*")))
    )
    raise ManifestError(f"{path}: {expected}{below}")


def _within(paths: Iterable[Path]) -> list[Path]:
    return sorted(path for path in paths if path.suffix in SUFFIXES and path.is_file())


def _yaml_parts(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the parts between lines of `---` with the numbers of their first lines."""
    start, line = 0, 1
    for separator in _SEPARATOR.finditer(content):
        # A directive belongs to the document after its `---`.
        if not content[start : separator.start()].lstrip().startswith(b"%"):
            yield line, content[start : separator.start()]
            line += content.count(b"\n", start, separator.end())
            start = separator.end()
    yield line, content[start:]


def _kind_at_margin(part: bytes) -> tuple[str, str] | None:
    """Returns the apiVersion and kind that a long document states at its left margin, each once."""
    if len(part) < _LONG:
        return None
    said = _AT_MARGIN.findall(part)
    of = {key.decode(): value.decode() for key, value in said}
    return (of["apiVersion"], of["kind"]) if len(said) == len(of) == 2 else None


def _json_values(content: bytes) -> list[tuple[int, Any, list[str]]] | None:
    """Returns the values of a JSON text with their lines and the keys that occur twice; None if the
    text is not JSON throughout, or is too deep.
    """
    repeated: list[str] = []

    def mapping(pairs: list[tuple[str, Any]]) -> Document:
        made = dict(pairs)
        if len(made) < len(pairs):
            repeated.extend(
                key for key, times in Counter(key for key, _ in pairs).items() if times > 1
            )
        return made

    decoder = json.JSONDecoder(
        object_pairs_hook=mapping,
        parse_float=json_number,
        parse_int=json_number,
        parse_constant=_no_constant,
    )
    values: list[tuple[int, Any, list[str]]] = []
    try:
        text = content.decode()
        start = _skip_blanks(text, 0)
        while start < len(text):
            value, end = decoder.raw_decode(text, start)
            if _is_deep(value):
                return None
            values.append((text.count("\n", 0, start) + 1, value, repeated[:]))
            repeated.clear()
            start = _skip_blanks(text, end)
    except (ValueError, RecursionError):
        return None
    return values


def _skip_blanks(text: str, start: int) -> int:
    blanks = _BLANK.match(text, start)
    return blanks.end() if blanks else start


def _no_constant(text: str) -> None:
    raise ValueError(text)


def _is_deep(value: Any) -> bool:
    """True if collections are nested more deeply than YAML allows here."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for of in level
            for item in (
                of.values() if isinstance(of, dict) else of if isinstance(of, list) else ()
            )
        ]
    return bool(level)


def objects_of(
    document: Any, where: str, findings: Findings, inherited: tuple[str, str] | None = None
) -> Iterator[tuple[Document, str]]:
    """Yields an object, or the items of a list. Items without apiVersion and kind have those of a
    typed list: those of a PodList are Pods.
    """
    if not isinstance(document, dict):
        findings.problem(f"{where}: expected an object with apiVersion, kind and metadata")
        return
    if inherited is not None and not (document.get("apiVersion") or document.get("kind")):
        document = {"apiVersion": inherited[0], "kind": inherited[1], **_without_kind(document)}
    version, kind = document.get("apiVersion"), document.get("kind")
    if not all(part and isinstance(part, str) for part in (version, kind)):
        findings.problem(f"{where}: expected an object with apiVersion, kind and metadata")
        return
    assert isinstance(version, str)
    assert isinstance(kind, str)
    if not kind.endswith("List") or ("items" not in document and kind != "List"):
        yield document, where
        return
    items = document.get("items") or []
    if not isinstance(items, list):
        findings.problem(f"{where}: items: expected a list")
        return
    item_kind = kind.removesuffix("List")
    for number, item in enumerate(items):
        of = (version, item_kind) if item_kind else None
        yield from objects_of(item, f"{where}, items[{number}]", findings, of)


def _without_kind(document: Document) -> Document:
    return {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
