"""`berth top` and `berth demo --keep` on a terminal."""

from __future__ import annotations

import re
import signal

import pytest
from click.testing import CliRunner

from berth.tools.top.command import top
from tests.kit.processes import free_port
from tests.kit.terminal import terminal

pytestmark = pytest.mark.full("starts processes")

LEFT = "\x1b[?1049l"  # the terminal shows again what it did before


def test_a_demo_that_is_kept_is_looked_at_and_quit() -> None:
    with terminal("demo", "--keep") as demo:
        demo.says("page at http")
        demo.says("kubectl --kubeconfig")
        demo.says("13 placed")
        demo.press("2")
        demo.says("held back by".upper())
        demo.press("4")
        demo.says("The scheduler leads.")
        demo.press("q")
        demo.says(LEFT)
        demo.says("13 placed, 0 pending in")
        assert demo.ends() == 0


def test_a_demo_that_is_terminated_leaves_the_terminal_as_it_was() -> None:
    with terminal("demo", "--keep") as demo:
        demo.says("13 placed")
        demo.process.send_signal(signal.SIGTERM)
        demo.says(LEFT)
        assert demo.ends() == 0


def test_another_terminal_looks_at_a_demo_until_and_after_it_ends() -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/ui/"
    with terminal("top", "--page", url) as early:
        early.says(f"Error: http://127.0.0.1:{port}: ")
        assert early.ends() == 2
    with terminal("demo", "--keep", f"--page-port={port}") as demo:
        demo.says("13 placed")
        with terminal("top", "--page", url) as looking:
            looking.says("13 placed")
            looking.press("3\r")
            looking.says("If it were decided now")
            demo.press("q")
            assert demo.ends() == 0
            looking.says("no connection")
            looking.press("\x03")
            looking.says(LEFT)
            assert looking.ends() == 0


def test_without_a_terminal_it_says_what_to_use() -> None:
    result = CliRunner().invoke(top)
    assert result.exit_code == 2
    assert re.search("expected a terminal; .*berth why", result.stderr)
