"""A process that runs another one, and kills it as soon as its own input ends: with whoever started
it, however that ends. Its first line of output is the other's process id.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path


def main() -> None:
    """Runs the command of the arguments; its output is a file, the first argument."""
    with Path(sys.argv[1]).open("ab") as output:
        child = subprocess.Popen(  # noqa: S603 - the command of `berth chaos`
            sys.argv[2:], stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )

    # Ctrl-C reaches every process of the terminal. Whoever started this one then ends its input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait_for_end() -> None:
        os.read(0, 1)
        child.kill()

    threading.Thread(target=wait_for_end, daemon=True).start()
    with suppress(BrokenPipeError):
        print(child.pid, flush=True)
    sys.exit(child.wait() and 1)


if __name__ == "__main__":
    main()
