"""The lines of a journal: how a write is written, and what a journal that is read again holds.

A line is read only as far as its names: the document of an object is decoded when somebody asks for
it, because most are never asked for. What is not read may be damaged, so a line has a checksum; in
older journals it has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import msgspec

from ...kubernetes.api.store import Key, Store
from ...kubernetes.api.types.api_documents import StoredObject
from ...kubernetes.api.types.custom_definitions import reread
from ...kubernetes.api.types.resources import BY_KIND, Kind
from .kept_errors import JournalError

HEAD = b'{"type":"'
COMPACTED = "COMPACTED"  # the type of the line with the last revision whose history is dropped
# The checksums of the types, with which those of their lines begin.
_SUMS = {each: crc32(each.encode()) for each in ("ADDED", "MODIFIED", "DELETED", COMPACTED)}
ADVICE = "put a copy of the file in its place or, to go on without this write, delete the line"


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line; `sum` is the CRC-32 of the type and the object."""

    type: str
    object: msgspec.Raw
    sum: int | None = None


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str
    name: str | None = None
    namespace: str = ""


class _Names(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of an object."""

    metadata: _Metadata
    api_version: str = ""
    kind: str = ""


_LINE, _NAMES = msgspec.json.Decoder(_Line), msgspec.json.Decoder(_Names)


def line_of(kind: bytes, raw: bytes) -> bytes:
    """Returns the line of a write of one type: ADDED, MODIFIED, DELETED or COMPACTED."""
    return b'%b%b","sum":%d,"object":%b}\n' % (HEAD, kind, crc32(raw, crc32(kind)), raw)


def replay(lines: Iterable[bytes], store: Store, path: str) -> int:
    """Fills an empty store from the lines of a journal. Returns the length in bytes of an
    incomplete last line, which is left out.

    Raises JournalError for a line that is damaged; `path` is named in the message.
    """
    living: dict[tuple[Kind, Key], StoredObject] = {}
    custom: dict[tuple[str, str, Key], tuple[int, StoredObject]] = {}  # by group and kind
    latest, cut_off = 1, 0
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            if not (line.startswith(HEAD) or HEAD.startswith(line)) or _is_whole(line[:-1]):
                raise _damaged(path, number)
            cut_off = len(line)
            break
        try:
            what, stored, names = _read(line)
        except (msgspec.DecodeError, KeyError, TypeError, ValueError) as problem:
            raise _damaged(path, number, str(problem)) from None
        latest = max(latest, stored.revision)
        if what == COMPACTED:
            continue
        key = names.metadata.namespace, names.metadata.name or ""
        kind = BY_KIND.get((names.api_version, names.kind))
        if kind is None:
            group = names.api_version.partition("/")[0]
            custom[group, names.kind, key] = number, stored
            if what == "DELETED":
                del custom[group, names.kind, key]
        elif what == "DELETED":
            living.pop((kind, key), None)
        else:
            living[kind, key] = stored
    for (kind, key), stored in living.items():
        store.put_back(kind, key, stored)
    for (group, name, key), (number, stored) in custom.items():
        kind = store.catalog.custom(group, name)
        if kind is None:
            raise _damaged(path, number, f"no definition of {name}.{group}")
        store.put_back(kind, key, reread(store.catalog, stored))
    store.revision = max(store.revision, latest)
    store.compact()
    return cut_off


def _is_whole(line: bytes) -> bool:
    try:
        return bool(_read(line))
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return False


def _damaged(path: str, number: int, problem: str = "") -> JournalError:
    told = [f"{path}, line {number}: not a write of an API server", problem]
    return JournalError(f"{': '.join(filter(None, told))}; {ADVICE}")


def _read(line: bytes) -> tuple[str, StoredObject, _Names]:
    """Returns the type of a write, its object and its names."""
    read = _LINE.decode(line)
    raw = bytes(read.object)
    if read.sum not in (None, crc32(raw, _SUMS[read.type])):
        raise ValueError("it does not have its checksum")
    names = _NAMES.decode(raw)
    metadata = names.metadata
    stored = StoredObject(None, int(metadata.resource_version), raw=raw)
    if read.type != COMPACTED and (metadata.name is None or not names.kind):
        raise KeyError("name")
    return read.type, stored, names
