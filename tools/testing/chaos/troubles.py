"""The faults of a run among processes, drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec

from ...cluster.faults.vocabulary import Fault, Met

ROUND_SECONDS = 10.0  # on average, between two faults
LONGEST_SECONDS = 8.0
SCHEDULERS = ("scheduler",)
WRITES = ("POST", "PATCH", "PUT", "DELETE")
BINDING = ("/binding",)
# Those that happen to processes, and not on the wire.
OF_SCHEDULERS = ("kill", "stop")
OF_PROCESSES = (*OF_SCHEDULERS, "server-restart", "server-restart-cold")


def troubles(seed: int, schedulers: int) -> Iterator[tuple[float, Fault]]:
    """Yields pauses in seconds, each with the fault that follows it, without end."""
    rng = Random(seed)
    while True:
        yield rng.expovariate(1 / ROUND_SECONDS), _drawn(rng, schedulers)


def _drawn(rng: Random, schedulers: int) -> Fault:
    length = round(rng.uniform(1, LONGEST_SECONDS), 1)
    number = rng.randrange(schedulers)
    kinds = [
        Fault("slow", chance=0.5, seconds=rng.choice([0.05, 0.5, 2.0]), clients=SCHEDULERS),
        Fault("refuse", chance=0.3, code=rng.choice([409, 429, 500, 503])),
        Fault("disk-full", chance=0.5),
        Fault("lose", chance=0.2),
        Fault("unanswered", chance=0.5, paths=BINDING),
        Fault("unanswered", chance=0.2, methods=WRITES),
        Fault("truncated", chance=0.2, clients=SCHEDULERS),
        Fault("arrive-late", chance=0.2, seconds=2.0, methods=WRITES, clients=SCHEDULERS),
        Fault("half-open", chance=0.1, clients=SCHEDULERS),
        Fault("older", chance=0.5, seconds=10.0, clients=SCHEDULERS),
        Fault("watch-late", chance=0.2, seconds=1.0),
        Fault("watch-repeat", chance=0.5),
        Fault("watch-cut", chance=0.1),
        Fault("watch-garbage", chance=0.1, clients=SCHEDULERS),
        Fault("watch-silent", chance=0.02, clients=SCHEDULERS),
        Fault("watch-expired", chance=0.1),
        Fault("compact"),
        Fault("clock-jump", seconds=rng.choice([-60.0, 60.0])),
        Fault("kill", number=number, seconds=rng.choice([0.0, 5.0])),
        Fault("kill", number=number, seconds=rng.choice([0.0, 5.0])),
        Fault("stop", number=number, seconds=length),
        Fault("stop", number=number, seconds=length),
        Fault("server-restart-cold", seconds=rng.choice([0.0, 3.0])),
    ]
    fault = rng.choice(kinds)
    return fault if fault.met is Met.TIME else msgspec.structs.replace(fault, end=length)
