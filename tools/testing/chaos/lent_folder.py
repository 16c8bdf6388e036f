"""A temporary folder that goes with whoever asked for it, however that ends: a process makes it,
says where it is, and removes it once its own input ends.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from time import sleep

# Whoever uses the folder may write into it until it is killed, at the same time.
LOOKS = 100
LOOK_SECONDS = 0.1


@contextmanager
def lent_folder(prefix: str) -> Iterator[Path]:
    """A folder whose name begins so. Raises OSError."""
    with subprocess.Popen(  # noqa: S603 - this module
        [sys.executable, "-m", __name__, prefix], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as lender:
        assert lender.stdout is not None
        name = lender.stdout.readline().decode().rstrip("\n")
        if not name:
            raise OSError("no temporary folder could be made")
        yield Path(name)


def main() -> None:
    """Lends a folder."""
    for ends in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ends, signal.SIG_IGN)  # which may be for all processes of a terminal
    try:
        folder = Path(mkdtemp(prefix=sys.argv[1]))
    except OSError as problem:
        sys.exit(str(problem))
    with suppress(BrokenPipeError):
        print(folder, flush=True)
    sys.stdin.read()
    for _ in range(LOOKS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        sleep(LOOK_SECONDS)


if __name__ == "__main__":
    main()
