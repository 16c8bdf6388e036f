"""The signals at which a command that runs until it is interrupted ends in order."""

from __future__ import annotations

import signal

ASKED = (signal.SIGINT, signal.SIGTERM)


def signals_that_end() -> tuple[signal.Signals, ...]:
    """Returns the signals that ask for an end. SIGHUP comes when the terminal is closed; a command
    that was started with nohup goes on then.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return ASKED
    return *ASKED, signal.SIGHUP
