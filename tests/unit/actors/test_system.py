"""The composition of the scheduler: what a caller gives it reaches the actors."""

from __future__ import annotations

from berth.config.options import Options, SecureServing
from tests.kit.daemon import Daemon, daemon
from tests.kit.processes import free_port


class Counts:
    """An observer that counts what it is given."""

    def __init__(self) -> None:
        self.decided_in: list[float] = []
        self.scheduled_in: list[float] = []

    def decided(self, seconds: float) -> None:
        self.decided_in.append(seconds)

    def scheduled(self, seconds: float) -> None:
        self.scheduled_in.append(seconds)


async def test_an_observer_sees_every_decision_also_where_metrics_are_served() -> None:
    for address in (None, SecureServing("127.0.0.1", free_port())):
        running, counts = Daemon(), Counts()
        async with daemon(options=Options(serving=address), given=running, observer=counts):
            running.put_node("n")
            running.put_pod("p")
            await running.advance(2)
            assert running.node_of("p") == "n"
        assert len(counts.decided_in) == len(counts.scheduled_in) == 1
