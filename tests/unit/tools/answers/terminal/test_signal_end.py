"""The signals that end a command."""

from __future__ import annotations

import signal

from berth.tools.answers.terminal.signal_end import signals_that_end


def test_a_command_under_nohup_goes_on_when_its_terminal_is_closed() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        assert {*signals_that_end()} == {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert {*signals_that_end()} == {signal.SIGINT, signal.SIGTERM}
    finally:
        signal.signal(signal.SIGHUP, before)
