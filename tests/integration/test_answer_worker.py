"""The process that answers what-ifs ends with the one that started it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

LOOPS = """
from berth.tools.answers.whatif.answer_worker import end_with_parent
end_with_parent()
print("loops", flush=True)  # to the output that it shares with its parent
while True:
    pass
"""
STARTS = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {LOOPS!r}])
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.full("starts processes")
def test_a_worker_that_loops_ends_with_its_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", STARTS], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    with parent.stdout as output:
        child = int(output.readline())
        assert output.readline() == b"loops\n"
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        # The output ends when the last of the processes that have it does.
        ended, _, _ = select.select([output], [], [], 30)
        if not ended:
            os.kill(child, signal.SIGKILL)
        assert ended, "the worker goes on without its parent"
