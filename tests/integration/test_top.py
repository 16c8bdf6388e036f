"""`berth top` and `berth demo --keep` on a terminal."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from berth.actors.telemetry.logs import configure_logs
from berth.config.feature_gates import DEFAULTS
from berth.config.load import from_mapping
from berth.config.options import Authorization
from berth.tools.answers.debug.debug_client import DebugTarget
from berth.tools.cluster.apiserver.kubeconfig import kubeconfig
from berth.tools.docs import recording
from berth.tools.views.commands.top import top
from berth.tools.views.top.app import Top
from berth.tools.views.top.cluster_model import ClusterModel
from berth.tools.views.top.live_cluster import Live
from berth.tools.views.top.view_source import LostError
from tests.kit.cluster import cluster
from tests.kit.daemon import node, pod
from tests.kit.processes import free_port
from tests.kit.serving import open_to_all, url_of
from tests.kit.terminal import terminal
from tests.kit.top import shows

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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_is_asked_to_end_leaves_the_terminal_as_it_was(number: signal.Signals) -> None:
    port = free_port()
    with terminal("demo", "--keep", f"--page-port={port}") as demo:
        demo.says("13 placed")
        with terminal("top", "--page", f"http://127.0.0.1:{port}/ui/") as looking:
            looking.says("13 placed")
            for each in looking, demo:
                each.process.send_signal(number)
                each.says(LEFT)
                assert each.ends() == 0
                assert "Traceback" not in each.said


def test_a_closed_terminal_leaves_no_folder_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with terminal("demo", "--keep") as demo:
        demo.says("13 placed")
        assert [*tmp_path.glob("berth-*/kubeconfig")]
        demo.close()
        demo.process.wait(60)
        assert not [*tmp_path.glob("berth-*")]


def test_a_demo_that_is_interrupted_twice_prints_the_end_once() -> None:
    with terminal("demo", "--keep") as demo:
        demo.says("13 placed")
        demo.press("\x03")
        demo.says(LEFT)
        demo.process.send_signal(signal.SIGINT)
        demo.says("13 placed, 0 pending in")
        demo.process.send_signal(signal.SIGINT)
        assert demo.ends() == 0
        assert "13 placed" not in demo.said
        assert "Traceback" not in demo.said


def test_another_terminal_looks_at_a_demo_until_and_after_it_ends() -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/ui/"
    with terminal("top", "--page", url) as early:
        early.says(f"Error: http://127.0.0.1:{port}/ui: ")
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


def target(server: str, kubeconfig: Path) -> DebugTarget:
    return DebugTarget(
        server=server,
        leader=False,
        lease="",
        kubeconfig=str(kubeconfig),
        context="",
        certificate_authority=None,
        insecure=True,
    )


async def test_a_scheduler_is_looked_at(tmp_path: Path) -> None:
    options = open_to_all()
    file = tmp_path / "kubeconfig"
    async with cluster() as running:
        file.write_text(kubeconfig(running.url))
        await running.schedule(options=options)
        configure_logs(quiet=True)
        await running.create("Node", node("small", "2"))
        await running.create("Pod", pod("big", "4"))
        live = Live(target(url_of(options), file), from_mapping(None), DEFAULTS)
        async with Top(live, ClusterModel()).run_test(size=(100, 30)) as pilot:
            await shows(pilot, lambda text: "1 pending" in text and ">small" in text)
            await pilot.press("2")
            await shows(pilot, lambda text: "parked 1" in text and "NodeResourcesFit 1" in text)
            await pilot.press("enter")
            text = await shows(pilot, lambda text: "What would change it" in text)
            assert "attempt 1: unschedulable" in text
            assert "Lower the cpu request" in text
            await running.create("Node", node("large", "8"))
            await shows(pilot, lambda text: "large, Pending" in text or "large, Running" in text)
            await running.delete("Node", "small")
            await pilot.press("1")
            await shows(pilot, lambda text: ">large" in text and "small" not in text)


async def test_a_scheduler_that_is_not_there_or_refuses_is_told(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    options = open_to_all()
    closed = msgspec.structs.replace(options, authorization=Authorization())
    async with cluster() as running:
        file.write_text(kubeconfig(running.url))
        live = Live(target(url_of(options), file), from_mapping(None), DEFAULTS)
        with pytest.raises(LostError, match="onnect"):
            await live.watch(print)
        await running.schedule(options=closed)
        with pytest.raises(LostError, match=r"40[13] "):
            await live.watch(print)


def test_the_recording_shows_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "FILE", tmp_path / "top.svg")
    recording.main()
    text = (tmp_path / "top.svg").read_text()
    assert text.count('<g class="later"') == len(recording.STEPS) - 1
    assert text.count("pods&#160;of&#160;node-3") == 1


def test_without_a_terminal_it_says_what_to_use() -> None:
    result = CliRunner().invoke(top)
    assert result.exit_code == 2
    assert re.search("expected a terminal; .*berth why", result.stderr)
