"""rest_client_*: how long requests to an API server took, and how they ended.

Mirrors client-go's tools/metrics and component-base's metrics/prometheus/restclient. A request that
is sent again counts once, with its last answer; the answers before it are retries. A client notes
each request in a list, which costs too little to slow down the sending of a bind. The notes are
added to the families when the metrics are read, or when there are MOST_NOTES of them.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable

import msgspec

from ..telemetry.measures import Registry, exponential

SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
BYTES = (64, 256, 512, *exponential(1024, 4, 8))
NO_ANSWER = "<error>"
MOST_NOTES = 1024


class ClientMeasures:
    """The families, which the clients of all threads share."""

    def __init__(self, registry: Registry) -> None:
        verb = ("verb", "host")
        self.duration = registry.histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host.",
            verb,
            buckets=SECONDS,
        )
        self.request_size = registry.histogram(
            "rest_client_request_size_bytes",
            "Request size in bytes. Broken down by verb and host.",
            verb,
            buckets=BYTES,
        )
        self.response_size = registry.histogram(
            "rest_client_response_size_bytes",
            "Response size in bytes. Broken down by verb and host.",
            verb,
            buckets=BYTES,
        )
        self.rate_limiter = registry.histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds. Broken down by verb, and host.",
            verb,
            buckets=SECONDS,
        )
        self.requests = registry.shared_counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ("code", "method", "host"),
        )
        self.retries = registry.shared_counter(
            "rest_client_request_retries_total",
            "Number of request retries, partitioned by status code, verb, and host.",
            ("code", "verb", "host"),
        )
        self.clients: list[HostMeasures] = []
        registry.refresh_by(self._add_up)

    async def _add_up(self) -> None:
        for client in self.clients:
            client.add_up()


class Note(msgspec.Struct, frozen=True, gc=False):
    """A request that has ended. `code` is the HTTP status, or None if there was no answer.
    `seconds` is the time with all retries, or None for a watch.
    """

    verb: str
    code: int | None
    sent: int = 0
    received: int | None = None
    seconds: float | None = None


class HostMeasures:
    """The measures of one client's requests to its host."""

    def __init__(self, families: ClientMeasures, host: str) -> None:
        self._families = families
        self._host = host
        self._waits: list[tuple[str, float]] = []
        self._notes: list[Note] = []
        self._adding = threading.Lock()
        families.clients.append(self)

    def waited(self, verb: str, seconds: float) -> None:
        """Notes that a request waited for the rate limit."""
        self._waits.append((verb, seconds))

    def retried(self, verb: str, code: int | None, sent: int) -> None:
        """Counts an answer after which the request will be sent again."""
        families = self._families
        families.retries.child(_text(code), verb, self._host).inc()
        families.request_size.child(verb, self._host).observe(sent)

    def ended(self, note: Note) -> None:
        self._notes.append(note)
        if len(self._notes) >= MOST_NOTES:
            self.add_up()

    def add_up(self) -> None:
        """Adds the notes to the families. May be called in any thread."""
        with self._adding:
            waits, notes = self._waits[:], self._notes[:]
            del self._waits[: len(waits)]
            del self._notes[: len(notes)]
        families, host = self._families, self._host
        for verb, delays in _by_verb(waits).items():
            families.rate_limiter.child(verb, host).observe_all(delays)
        timed = [note for note in notes if note.seconds is not None]
        for family, values in (
            (families.duration, [(note.verb, note.seconds or 0.0) for note in timed]),
            (families.request_size, [(note.verb, note.sent) for note in timed]),
            (
                families.response_size,
                [(n.verb, n.received) for n in timed if n.received is not None],
            ),
        ):
            for verb, numbers in _by_verb(values).items():
                family.child(verb, host).observe_all(numbers)
        for (code, verb), number in Counter((note.code, note.verb) for note in notes).items():
            families.requests.child(_text(code), verb, host).inc(number)


def _by_verb(values: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    by_verb: dict[str, list[float]] = defaultdict(list)
    for verb, value in values:
        by_verb[verb].append(value)
    return by_verb


def _text(code: int | None) -> str:
    return NO_ANSWER if code is None else str(code)
