"""The journal in random histories of writes, failing disks and crashes: it holds exactly the
acknowledged writes.
"""

from __future__ import annotations

import errno
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from berth.tools.cluster.apiserver.journal import Journal
from berth.tools.kubernetes.api.requests.media_types import MERGE
from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.api_documents import RefusedError, StoredObject
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.disk import failing_disk
from tests.kit.examples import examples

MAPS = BY_KIND["v1", "ConfigMap"]
NS = "default"
NAMES = st.sampled_from(["a", "b", "c"])
FAILURES = st.sampled_from([errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT, errno.EROFS])
PIECES = st.lists(st.integers(1, 300), max_size=3)
# Where a file is cut, as a share: its length differs from run to run, since lines have sums.
SHARES = st.integers(0, 1000)
Contents = dict[tuple[str, str, str], dict[str, Any]]
State = tuple[int, Contents]


def between(first: int, last: int, share: int) -> int:
    """Returns a number of the range; `share` is in thousandths."""
    return first + (last - first) * share // 1000


def state(store: Store) -> State:
    def key(kind: str, stored: StoredObject) -> tuple[str, str, str]:
        metadata = stored.document["metadata"]
        return kind, metadata.get("namespace", ""), metadata["name"]

    return store.revision, {
        key(kind.kind, stored): stored.document for kind, stored in store.everything()
    }


class JournalHistory(RuleBasedStateMachine):
    """`acknowledged` maps the length of the file after each write since the start to the objects at
    that time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.path = Path(self.stack.enter_context(tempfile.TemporaryDirectory()), "journal")
        self.disk = self.stack.enter_context(failing_disk())
        self.serial = 0
        self.journal = Journal(self.path)
        Api(self.journal.store).seed()
        self.acknowledged: dict[int, State] = {}
        self.remember()

    def start(self, cut_off: int) -> None:
        self.journal = Journal(self.path)
        assert self.journal.cut_off == cut_off
        self.acknowledged.clear()
        self.remember()

    def remember(self) -> None:
        self.acknowledged[self.path.stat().st_size] = state(self.journal.store)

    def latest(self) -> State:
        return self.acknowledged[max(self.acknowledged)]

    def end(self) -> bytes:
        """Returns the length of the file if the process is killed now."""
        self.journal.__exit__(None, None, None)
        return self.path.read_bytes()

    def do(self, name: str, what: str, size: int = 0) -> None:
        api = Api(self.journal.store)
        there = self.journal.store.find(MAPS, NS, name) is not None
        self.serial += 1
        body: dict[str, Any] = {
            "metadata": {"name": name},
            "data": {"n": str(self.serial), "much": "x" * size},
        }
        if not there:
            api.create(MAPS, NS, body)
        elif what == "delete":
            api.delete(MAPS, NS, name, DeleteOptions())
        else:
            api.patch(MAPS, NS, name, body, MERGE, "")

    @rule(name=NAMES, what=st.sampled_from(["write", "delete"]), pieces=PIECES)
    def write(self, name: str, what: str, pieces: list[int]) -> None:
        self.disk.writes[:] = pieces
        self.do(name, what)
        self.disk.writes.clear()
        self.remember()

    @rule(name=NAMES, pieces=PIECES, number=FAILURES, stays=st.booleans())
    def fail_to_write(self, name: str, pieces: list[int], number: int, stays: bool) -> None:
        """A write fails. With `stays`, the part that was written cannot be removed for the moment
        either.
        """
        before = state(self.journal.store)
        self.disk.writes[:] = [*pieces, OSError(number, "failed")]
        self.disk.truncations[:] = [OSError(errno.EIO, "failed")] if stays else []
        with pytest.raises(RefusedError) as refused:
            self.do(name, "write", sum(pieces))
        assert refused.value.code == 500
        self.disk.writes.clear()
        self.disk.truncations.clear()
        assert state(self.journal.store) == before
        assert list(self.journal.store.since(MAPS, before[0])) == []

    @rule()
    def kill(self) -> None:
        """The process is killed between two writes."""
        latest, length = self.latest(), max(self.acknowledged)
        self.start_over(self.end(), latest, length)

    @rule(name=NAMES, share=SHARES)
    def kill_within_a_write(self, name: str, share: int) -> None:
        latest, length = self.latest(), max(self.acknowledged)
        self.do(name, "write")
        raw = self.end()
        self.start_over(raw[: between(length, len(raw) - 1, share)], latest, length)

    @rule(share=SHARES)
    def lose_the_end(self, share: int) -> None:
        """The machine stops and loses the bytes that it had not put on the disk."""
        raw = self.end()
        size = between(min(self.acknowledged), max(self.acknowledged), share)
        length = max(length for length in self.acknowledged if length <= size)
        self.start_over(raw[:size], self.acknowledged[length], length)

    def start_over(self, raw: bytes, expected: State, length: int) -> None:
        self.path.write_bytes(raw)
        self.start(len(raw) - length)
        assert state(self.journal.store) == expected

    @invariant()
    def what_is_there_is_what_was_acknowledged(self) -> None:
        assert state(self.journal.store) == self.latest()

    def teardown(self) -> None:
        with self.stack:
            self.journal.__exit__(None, None, None)


TestJournalHistory = JournalHistory.TestCase
TestJournalHistory.settings = examples(0.2)
