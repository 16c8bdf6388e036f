"""The journal on a failing disk: a refused write leaves nothing behind, and an accepted one is
kept.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.tools.cluster.apiserver.journal import Journal, JournalError, Tail
from berth.tools.kubernetes.api.requests.media_types import MERGE
from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.disk import Disk, failing_disk
from tests.kit.documents import Document, thing

MAPS = BY_KIND["v1", "ConfigMap"]
NS = "default"


def config_map(name: str, **data: str) -> Document:
    return thing("ConfigMap", name, NS, data=data)


def names(store: Store) -> list[str]:
    """Returns the names of the ConfigMaps that a test has made."""
    named = [stored.document["metadata"]["name"] for stored in store.list(MAPS, NS)]
    return [name for name in named if name != "kube-root-ca.crt"]


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
            api.delete_all(MAPS, NS, None, DeleteOptions())
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
