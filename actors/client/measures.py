"""rest_client_*: what requests to an API server took, and how they ended.

Mirrors client-go's tools/metrics and component-base's metrics/prometheus/restclient. A request that
is sent again counts once, with its last answer; the answers before it are retries.
"""

from __future__ import annotations

from berth.actors.runtime.measures import Histogram, Registry, exponential

SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
BYTES = (64, 256, 512, *exponential(1024, 4, 8))
NO_ANSWER = "<error>"


class ClientMeasures:
    """The families, which the clients of all threads share."""

    def __init__(self, registry: Registry) -> None:
        verb = ("verb", "host")
        self.duration = registry.histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host.",
            verb,
            buckets=SECONDS,
            shared=True,
        )
        self.request_size = registry.histogram(
            "rest_client_request_size_bytes",
            "Request size in bytes. Broken down by verb and host.",
            verb,
            buckets=BYTES,
            shared=True,
        )
        self.response_size = registry.histogram(
            "rest_client_response_size_bytes",
            "Response size in bytes. Broken down by verb and host.",
            verb,
            buckets=BYTES,
            shared=True,
        )
        self.rate_limiter = registry.histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds. Broken down by verb, and host.",
            verb,
            buckets=SECONDS,
            shared=True,
        )
        self.requests = registry.counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ("code", "method", "host"),
            shared=True,
        )
        self.retries = registry.counter(
            "rest_client_request_retries_total",
            "Number of request retries, partitioned by status code, verb, and host.",
            ("code", "verb", "host"),
            shared=True,
        )


class HostMeasures:
    """The measures of one client's requests to its host. `code` is the status, None if there was no
    answer.
    """

    def __init__(self, families: ClientMeasures, host: str) -> None:
        self._families = families
        self._host = host
        self._by_verb: dict[str, tuple[Histogram, Histogram, Histogram, Histogram]] = {}

    def waited(self, verb: str, seconds: float) -> None:
        """A request waited for the rate limit."""
        self._of(verb)[0].observe(seconds)

    def sent(self, verb: str, size: int) -> None:
        self._of(verb)[1].observe(size)

    def received(self, verb: str, size: int) -> None:
        self._of(verb)[2].observe(size)

    def took(self, verb: str, seconds: float) -> None:
        """A request with all its retries has ended. Watches are not measured."""
        self._of(verb)[3].observe(seconds)

    def ended(self, verb: str, code: int | None) -> None:
        self._families.requests.child(_text(code), verb, self._host).inc()

    def retried(self, verb: str, code: int | None) -> None:
        self._families.retries.child(_text(code), verb, self._host).inc()

    def _of(self, verb: str) -> tuple[Histogram, Histogram, Histogram, Histogram]:
        found = self._by_verb.get(verb)
        if found is None:
            its = self._families
            found = self._by_verb[verb] = (
                its.rate_limiter.child(verb, self._host),
                its.request_size.child(verb, self._host),
                its.response_size.child(verb, self._host),
                its.duration.child(verb, self._host),
            )
        return found


def _text(code: int | None) -> str:
    return NO_ANSWER if code is None else str(code)
