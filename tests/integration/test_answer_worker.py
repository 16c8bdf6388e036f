"""The process that answers what-ifs ends with the one that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

LOOPS = """
from berth.tools.answers.whatif.answer_worker import end_with_parent
end_with_parent()
print("loops", flush=True)
while True:
    pass
"""
STARTS = f"""
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {LOOPS!r}])
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.full("starts processes")
def test_a_worker_that_loops_ends_with_its_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", STARTS], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert parent.stdout.readline() == "loops\n"
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    ended = time.monotonic() + 30
    while time.monotonic() < ended:
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        pytest.fail("the worker goes on without its parent")
    parent.stdout.close()
