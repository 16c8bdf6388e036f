"""The journal on a failing disk: a refused write leaves nothing behind, and an accepted one is
kept.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import aiohttp
import pytest

from berth.tools.cluster.apiserver.app import serve
from berth.tools.cluster.apiserver.journal import Journal, Tail
from berth.tools.cluster.apiserver.journal_replay import ADVICE, replay
from berth.tools.cluster.apiserver.kept_errors import JournalError
from berth.tools.kubernetes.api.requests.media_types import MERGE
from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions
from berth.tools.kubernetes.api.store import DEFINITIONS, Store
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.custom_kinds import define, definition, kind_of, schema_of, shirt, version_of
from tests.kit.disk import Disk, failing_disk
from tests.kit.documents import Document, thing
from tests.kit.stores import fresh_store

MAPS = BY_KIND["v1", "ConfigMap"]
NS = "default"
NOT_OLDER = "resourceVersionMatch=NotOlderThan"


def config_map(name: str, **data: str) -> Document:
    return thing("ConfigMap", name, NS, data=data)


def names(store: Store) -> list[str]:
    """Returns the names of the ConfigMaps that a test has made."""
    named = [stored.document["metadata"]["name"] for stored in store.list(MAPS, NS)]
    return [name for name in named if name != "kube-root-ca.crt"]


def files_in(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


@pytest.fixture
def disk() -> Iterator[Disk]:
    with failing_disk() as failing:
        yield failing


@pytest.mark.parametrize(
    "number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS]
)
@pytest.mark.parametrize("written", [(), (1,), (40, 7)], ids=["nothing", "a byte", "two pieces"])
def test_a_write_that_the_disk_refuses_is_refused(
    tmp_path: Path, disk: Disk, number: int, written: tuple[int, ...]
) -> None:
    path = tmp_path / "objects"
    with Journal(path) as journal:
        store = journal.store
        store.create(MAPS, config_map("a"))
        before, revision = path.read_bytes(), store.revision
        disk.writes += [*written, OSError(number, os.strerror(number))]
        with pytest.raises(RefusedError, match=os.strerror(number)) as refused:
            store.create(MAPS, config_map("b"))
        assert (refused.value.code, refused.value.reason) == (500, "InternalError")
        assert (names(store), store.revision) == (["a"], revision)
        assert list(store.since(MAPS, revision)) == [], "a watch reports a refused write"
        assert path.read_bytes() == before
        assert store.create(MAPS, config_map("c")).revision == revision + 1
    with Journal(path) as journal:
        assert names(journal.store) == ["a", "c"]
        assert not journal.cut_off


def test_a_write_may_take_several_calls(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "objects"
    with Journal(path) as journal:
        disk.writes += [1, 2, 3, 50]
        journal.store.create(MAPS, config_map("a", long="x" * 500))
    with Journal(path) as journal:
        assert names(journal.store) == ["a"]


def test_a_disk_that_takes_no_bytes_without_an_error_causes_no_endless_loop(
    tmp_path: Path, disk: Disk
) -> None:
    with Journal(tmp_path / "objects") as journal:
        disk.writes += [10, 0]
        with pytest.raises(RefusedError, match=os.strerror(errno.EIO)):
            journal.store.create(MAPS, config_map("a"))


@pytest.mark.parametrize("end", ["killed", "mended"])
def test_no_write_follows_a_torn_one_that_cannot_be_removed(
    tmp_path: Path, disk: Disk, end: str
) -> None:
    path = tmp_path / "objects"
    with Journal(path) as journal:
        store = journal.store
        store.create(MAPS, config_map("a"))
        disk.writes += [30, OSError(errno.EIO, "broken")]
        disk.truncations += [OSError(errno.EIO, "broken"), OSError(errno.EIO, "still broken")]
        with pytest.raises(RefusedError, match="broken"):
            store.create(MAPS, config_map("b"))
        with pytest.raises(RefusedError, match="still broken"):
            store.create(MAPS, config_map("c"))
        assert names(store) == ["a"]
        if end == "mended":
            store.create(MAPS, config_map("d"))
    with Journal(path) as journal:
        assert names(journal.store) == (["a", "d"] if end == "mended" else ["a"])
        assert journal.cut_off == (0 if end == "mended" else 30)


def test_a_request_that_fails_halfway_keeps_its_first_writes(tmp_path: Path, disk: Disk) -> None:
    """The answer is the failure. In Kubernetes too, each is a separate write."""
    path = tmp_path / "objects"
    with Journal(path) as journal:
        api = Api(journal.store)
        api.seed()
        for name in "abc":
            api.create(MAPS, NS, config_map(name))
        disk.writes += [None, OSError(errno.ENOSPC, "full")]
        with pytest.raises(RefusedError, match="full"):
            list(api.delete_all(MAPS, NS, None, DeleteOptions()))
        assert names(journal.store) == ["b", "c"]
    with Journal(path) as journal:
        assert names(journal.store) == ["b", "c"]


def test_a_failed_update_can_be_repeated(tmp_path: Path, disk: Disk) -> None:
    """One write removes the last finalizer, and another the object."""
    path = tmp_path / "objects"
    with Journal(path) as journal:
        api = Api(journal.store)
        api.seed()
        document = config_map("a")
        document["metadata"]["finalizers"] = ["berth.dev/f"]
        api.create(MAPS, NS, document)
        api.delete(MAPS, NS, "a", DeleteOptions())
        disk.writes += [None, OSError(errno.ENOSPC, "full")]
        with pytest.raises(RefusedError, match="full"):
            api.patch(MAPS, NS, "a", {"metadata": {"finalizers": None}}, MERGE, "")
        api.patch(MAPS, NS, "a", {"metadata": {"finalizers": None}}, MERGE, "")
        assert names(journal.store) == []


def test_a_start_that_the_disk_refuses_leaves_the_file_unchanged(
    tmp_path: Path, disk: Disk
) -> None:
    path = tmp_path / "objects"
    with Journal(path) as journal:
        journal.store.create(MAPS, config_map("a"))
    before = path.read_bytes()
    disk.writes += [20, OSError(errno.ENOSPC, "full")]
    with pytest.raises(OSError, match="full"):
        Journal(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["objects"]
    with Journal(path) as journal:
        assert names(journal.store) == ["a"]


def test_a_failure_to_sync_at_the_end_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    path = tmp_path / "objects"
    journal = Journal(path)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(JournalError, match="objects cannot be synced: Input/output error"), journal:
        journal.store.create(MAPS, config_map("a"))
    monkeypatch.undo()
    with Journal(path) as journal:
        assert names(journal.store) == ["a"]


async def test_a_write_is_answered_once_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a write nor a read or a watch that shows it is answered before."""
    let, sync = threading.Event(), os.fsync
    path = tmp_path / "objects"
    url_of_maps = "/api/v1/namespaces/default/configmaps"
    body = json.dumps({"metadata": {"name": "a"}}).encode()
    head = {"Content-Type": "application/json"}
    with Journal(path) as journal:
        async with (
            serve(store=journal.store, gate=journal.commit) as url,
            aiohttp.ClientSession() as session,
            session.get(
                f"{url}{url_of_maps}?watch=true&sendInitialEvents=false&{NOT_OLDER}"
            ) as watch,
        ):
            assert await journal.commit.settled()
            monkeypatch.setattr(os, "fsync", lambda file: (let.wait(10), sync(file)))
            written = asyncio.ensure_future(
                session.post(url + url_of_maps, data=body, headers=head)
            )
            while "a" not in names(journal.store):
                await asyncio.sleep(0.001)
            read = asyncio.ensure_future(session.get(url + url_of_maps))
            seen = asyncio.ensure_future(watch.content.readline())
            assert not (await asyncio.wait([written, read, seen], timeout=0.1))[0]
            assert b'"name":"a"' in path.read_bytes(), "it is in the file, but not synced"
            let.set()
            assert ((await written).status, (await read).status) == (201, 200)
            assert b'"name":"a"' in await seen


async def test_no_write_is_answered_by_a_disk_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def write() -> None:
        async with journal.tended():
            assert await journal.commit.settled()
            monkeypatch.setattr(os, "fsync", fail)
            journal.store.create(MAPS, config_map("a"))
            assert not await journal.commit.settled()
            with pytest.raises(RefusedError, match='"b" cannot be kept'):
                journal.store.create(MAPS, config_map("b"))
            assert names(journal.store) == ["a"]

    journal = Journal(tmp_path / "objects")
    with pytest.raises(JournalError, match="objects cannot be synced"):
        await write()
    monkeypatch.undo()
    journal.__exit__(None, None, None)


async def test_a_journal_is_rewritten_while_writes_go_on(tmp_path: Path) -> None:
    path, copy = tmp_path / "objects", tmp_path / "copy"
    acknowledged: list[list[str]] = []

    async def write() -> None:
        for number in range(200):
            journal.store.create(MAPS, config_map(f"m{number:03}"))
            if number % 3:
                journal.store.delete(MAPS, NS, f"m{number:03}")
            known = names(journal.store)
            assert await journal.commit.settled()
            acknowledged.append(known)

    def crash() -> None:
        """What is in the file now, after a crash, has what is acknowledged now."""
        known, present = acknowledged[-1] if acknowledged else [], names(journal.store)
        copy.write_bytes(path.read_bytes())
        with Journal(copy) as after:
            kept = {*names(after.store)}
            assert {*known} <= kept <= {*present}, "only the last writes may be missing"

    with Journal(path) as journal:
        for number in range(2500):
            journal.store.create(MAPS, config_map(f"a{number}", k="v"))
            journal.store.delete(MAPS, NS, f"a{number}")
        long = path.stat().st_size
        writing = asyncio.ensure_future(write())
        while not writing.done():
            await journal.rewrite()
            crash()
        await writing
        assert path.stat().st_size < long / 10
        at_end, revision = names(journal.store), journal.store.revision
    with Journal(path) as journal:
        assert (names(journal.store), journal.store.revision) == (at_end, revision)
    assert files_in(tmp_path) == {"objects", "copy"}


async def test_a_rewrite_that_the_disk_refuses_leaves_the_file_as_it_is(
    tmp_path: Path, disk: Disk
) -> None:
    path = tmp_path / "objects"
    with Journal(path) as journal:
        journal.store.create(MAPS, config_map("a"))
        before = path.read_bytes()
        disk.writes += [OSError(errno.ENOSPC, "full")]
        await journal.rewrite()
        assert path.read_bytes() == before
        journal.store.create(MAPS, config_map("b"))
    assert files_in(tmp_path) == {"objects"}
    with Journal(path) as journal:
        assert names(journal.store) == ["a", "b"]


async def test_a_journal_that_has_grown_large_is_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.tools.cluster.apiserver.journal.SMALL", 1000)
    monkeypatch.setattr("berth.tools.cluster.apiserver.journal.TEND_SECONDS", 0.001)
    path = tmp_path / "objects"
    with Journal(path) as journal:
        async with journal.tended():
            for number in range(50):
                journal.store.create(MAPS, config_map(f"a{number}", long="x" * 100))
                journal.store.delete(MAPS, NS, f"a{number}")
            while path.stat().st_size > 1000:
                await asyncio.sleep(0.001)
            journal.store.create(MAPS, config_map("b"))
    with Journal(path) as journal:
        assert names(journal.store) == ["b"]


@pytest.mark.full("long")
def test_after_a_crash_at_any_byte_all_acknowledged_writes_are_there(tmp_path: Path) -> None:
    path, copy = tmp_path / "objects", tmp_path / "copy"
    acknowledged: dict[int, list[str]] = {}
    with Journal(path) as journal:
        acknowledged[path.stat().st_size] = []
        for name in "ab":
            journal.store.create(MAPS, config_map(name))
            acknowledged[path.stat().st_size] = names(journal.store)
        journal.store.delete(MAPS, NS, "a")
        acknowledged[path.stat().st_size] = names(journal.store)
    raw = path.read_bytes()
    for size in range(min(acknowledged), len(raw) + 1):
        copy.write_bytes(raw[:size])
        whole = max(length for length in acknowledged if length <= size)
        with Journal(copy) as journal:
            assert names(journal.store) == acknowledged[whole]
            assert journal.cut_off == size - whole


def test_a_line_that_is_damaged_at_any_byte_is_named(tmp_path: Path) -> None:
    path = tmp_path / "objects"
    with Journal(path) as journal:
        journal.store.create(MAPS, config_map("a", text="é"))
        journal.store.delete(MAPS, NS, "a")
        journal.store.create(MAPS, config_map("b"))
    whole = path.read_bytes()
    for at, byte in enumerate(whole):
        number = 1 + whole[:at].count(b"\n")
        for damage in {byte ^ 1, byte ^ 0x20, 0xFF, ord("\n")} - {byte}:
            lines = BytesIO(whole[:at] + bytes([damage]) + whole[at + 1 :])
            with pytest.raises(JournalError) as refused:
                replay(lines, fresh_store(), "objects")
            assert str(refused.value).startswith(f"objects, line {number}: not a write")
            assert str(refused.value).endswith(ADVICE)


def test_a_journal_without_checksums_is_read(tmp_path: Path) -> None:
    path = tmp_path / "objects"
    with Journal(path) as journal:
        journal.store.create(MAPS, config_map("a"))
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert all(line.pop("sum") for line in lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Journal(path) as journal:
        assert names(journal.store) == ["a"]


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    """It may contain secrets."""
    path = tmp_path / "new" / "objects"
    with Journal(path):
        assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    for mode in (0o644, 0o640):
        path.chmod(mode)
        with Journal(path):
            assert path.stat().st_mode & 0o777 == mode & 0o600


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no such device here")
def test_a_device_is_refused_as_a_journal() -> None:
    with pytest.raises(JournalError, match="/dev/full: expected a file"):
        Journal(Path("/dev/full"))
    assert Path("/dev/full").is_char_device()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no such device here")
def test_a_full_device_refuses_the_write() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        tail = Tail(full.fileno())
        for _ in range(2):
            with pytest.raises(
                OSError, match=f"{os.strerror(errno.ENOSPC)}|{os.strerror(errno.EINVAL)}"
            ):
                tail.add(b"line\n")


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_to_the_file_stays_a_link(tmp_path: Path, exists: bool) -> None:
    target, link = tmp_path / "elsewhere" / "objects", tmp_path / "objects"
    target.parent.mkdir()
    if exists:
        target.touch()
    link.symlink_to(target)
    with Journal(link) as journal:
        journal.store.create(MAPS, config_map("a"))
        with pytest.raises(JournalError, match="another server is using this file"):
            Journal(target)
    assert link.is_symlink()
    with Journal(target) as journal:
        assert names(journal.store) == ["a"]


async def test_custom_objects_survive_a_restart(tmp_path: Path) -> None:
    path, number = tmp_path / "journal", {"type": "integer"}
    with Journal(path) as journal:
        Api(journal.store).seed()
        define(journal.store, definition(version_of(schema_of({"properties": {"n": number}}))))
        Api(journal.store).create(kind_of(journal.store), NS, shirt(n=1))
        stored = journal.store.get(DEFINITIONS, "", "shirts.shop.example.com")
        fields = {"n": number, "m": {**number, "default": 2}}
        versions = [version_of(schema_of({"properties": fields}))]
        after = {**stored, "spec": {**stored["spec"], "versions": versions}}
        Api(journal.store).update(DEFINITIONS, "", "shirts.shop.example.com", after, "")
    for _ in range(2):
        with Journal(path) as journal:
            kind = kind_of(journal.store)
            assert journal.store.get(kind, NS, "blue")["spec"] == {"n": 1, "m": 2}
    with Journal(path) as journal:
        Api(journal.store).delete(DEFINITIONS, "", "shirts.shop.example.com", DeleteOptions())
    with Journal(path) as journal:
        assert journal.store.catalog.added == ()
