"""Fixtures that several rooms share because they are expensive to make, and the rights of the
schedulers in the tests.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from berth.actors.process import collector
from berth.actors.scheduling.framework.logger import use_output
from tests.kit.certificates import Authority
from tests.kit.examples import load_profile
from tests.kit.left_out import LeftOut
from tests.kit.measured import Measured
from tests.kit.rights import RIGHTS
from tests.kit.waits_first import WaitsFirst
from tests.kit.whole_run import WholeRun

# The objects of thousands of tests stay; the collector need not look at them again and again.
COLLECT = (20_000, 20, 50)
# jsonschema would compile 38 grammars with it for a second, to check formats of no test.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
# Each start of a process and most clients would read the machine's authorities, for 40 ms; those
# that a test needs it names. This one signs nothing.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "kit" / "authority.pem")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", metavar="FOLDER", help="a larger collection of recorded decisions")
    parser.addoption("--scheduler-perf", metavar="FOLDER", help="the workloads of Kubernetes")


def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(*COLLECT)
    load_profile()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as for each command behind a `&`
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not config.option.collectonly:
        config.pluginmanager.register(WholeRun())
    coverage = config.pluginmanager.getplugin("_cov")
    if coverage is not None and coverage.cov_controller is not None:
        config.pluginmanager.register(Measured(coverage))
    config.pluginmanager.register(LeftOut())
    config.pluginmanager.register(WaitsFirst())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority and its certificates: `server` for 127.0.0.1, `named` for berth.example only,
    `common-name` with a CN and no alternative names, and `client` for a client.
    """
    authorities = Authority(tmp_path_factory.mktemp("certificates"))
    authorities.issue("server", "IP:127.0.0.1")
    authorities.issue("named", "DNS:berth.example")
    authorities.sign("common-name", "basicConstraints=CA:FALSE", common_name="127.0.0.1")
    authorities.issue("client")
    return authorities


@pytest.fixture(autouse=True)
def no_settings_of_a_command() -> None:
    """Undoes what a command that ran in this process has set up: its log and its collector."""
    use_output(None)
    if gc.get_threshold() != COLLECT:
        gc.set_threshold(*COLLECT)
        gc.callbacks[:] = [each for each in gc.callbacks if each is not collector._set_aside]


@pytest.fixture(autouse=True)
def rights() -> Iterator[None]:
    """Fails a test in which a scheduler asked for something that it has no right to."""
    yield
    refused = sorted(set(RIGHTS.refused))
    RIGHTS.refused.clear()
    assert not refused, f"config/deploy grants no right to {'; '.join(refused)}"
