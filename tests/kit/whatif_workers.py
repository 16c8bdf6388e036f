"""The processes that answer what-ifs beside this one."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from berth.tools.answers.whatif.answer_worker import MOST_MORE
from berth.tools.answers.whatif.memory import data_bytes


def workers() -> list[int]:
    """Returns the processes of this one that answer what-ifs."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes()
            parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:  # It has ended.
            continue
        if b"berth.tools.answers.whatif.answer_worker" in words and int(parent) == os.getpid():
            found.append(int(path.name))
    return found


def leave(worker: int, more: int) -> None:
    """Leaves a process that is the first to end, and has a limit, only some more bytes."""
    process = Path(f"/proc/{worker}")
    assert (process / "oom_score_adj").read_text() == "1000\n"
    limit, most = resource.prlimit(worker, resource.RLIMIT_DATA)
    now = data_bytes(process)
    assert now + MOST_MORE < limit < 3 * now + MOST_MORE
    resource.prlimit(worker, resource.RLIMIT_DATA, (now + more, most))
