"""The composition of the scheduler: what a caller gives it reaches the actors."""

from __future__ import annotations

from berth.actors.telemetry.instruments import Instruments
from berth.actors.telemetry.measures import Registry
from berth.config.options import Options, SecureServing
from tests.kit.daemon import Daemon, daemon
from tests.kit.processes import free_port


class Counts(Instruments):
    """Instruments that note each duration."""

    def __init__(self, running: Daemon) -> None:
        super().__init__(Registry(), running.clock.now)
        self.decisions = self.attempts = 0

    def decided(self, started: float, began: float, ended: float) -> None:
        self.decisions += 1

    def attempt_ended(self, profile: str, result: str, seconds: float) -> None:
        self.attempts += 1


async def test_instruments_see_every_decision_also_where_metrics_are_served() -> None:
    for address in (None, SecureServing("127.0.0.1", free_port())):
        running = Daemon()
        counts = Counts(running)
        async with daemon(options=Options(serving=address), existing=running, instruments=counts):
            running.put_node("n")
            running.put_pod("p")
            await running.advance(2)
            assert running.node_of("p") == "n"
        assert counts.decisions == counts.attempts == 1
