"""Tracing: each attempt as an OpenTelemetry trace, if the environment names an endpoint for traces.

An attempt is a span, with a span for each extension point, and below it one for each plugin. The
libraries are the extra `tracing` of the package, and read their environment variables themselves:
headers, certificates, the sampler. The main thread only notes times. A second thread makes the
spans of attempts that have ended, and the library's own thread sends them. Neither can delay an
attempt: if they fall behind, traces are dropped.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from io import BytesIO
from queue import SimpleQueue
from typing import Any, NamedTuple

from ..runtime.clock import Clock
from ..scheduling.framework.logger import get_logger
from ..scheduling.framework.measuring import POINTS
from ..scheduling.framework.status import Code
from ..scheduling.model.pod_info import PodInfo
from .records import DISCARDED, FIRST, PointRecord, PointTimes

log = get_logger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"
PROVIDERS = (
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER",
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER",
)
EXTRA = "berth-scheduler[tracing]"
SERVICE = "berth"
MOST_WAITING = 1_000  # attempts that have ended and have no spans yet
FLUSH_SECONDS = 3.0
MOST_ANSWERED = 64 << 10  # bytes of an answer of the collector; the rest is not read
MOST_LOGGED = 500  # characters of a complaint of the library, which may quote an answer


class _Plugin(NamedTuple):
    name: str
    point: str
    code: Code
    began: float
    ended: float


class TracedRecord(PointRecord):
    """The record of a traced attempt. At its end, its marks are added to those of the profile's
    other attempts.

    `offset` is the difference between the time of day and the monotonic clock.
    """

    def __init__(
        self, tracing: Tracing, times: PointTimes, span: Any, offset: float, *, sampled: bool
    ) -> None:
        super().__init__(times, [], detailed=True)
        self._tracing = tracing
        self._offset = offset
        self._sampled = sampled
        self.span = span
        self.ended = 0.0
        self.plugins: list[_Plugin] = []

    def ran(self, plugin: str, point: str, code: Code, started: float) -> None:
        self.plugins.append(_Plugin(plugin, point, code, started, self.now()))
        if self._sampled:
            super().ran(plugin, point, code, started)

    def end(self, result: str, node: str = "") -> None:
        self.ended = self.now()
        self._times.marks.extend(self.marks)
        self.span.set_attribute("scheduler.result", result)
        if node:
            self.span.set_attribute("k8s.node.name", node)
        self._tracing.finish(self, failed=result == "error")

    def wall(self, at: float) -> int:
        """Returns a time of the attempt in nanoseconds since 1970."""
        return int((at + self._offset) * 1e9)

    def intervals(self) -> Iterator[tuple[str, Code, float, float]]:
        """Yields each extension point that took time, with its code and times."""
        kinds, times = self.marks[::2], self.marks[1::2]
        pairs = zip(kinds, kinds[1:], times, times[1:], strict=False)
        for kind, end, began, ended in pairs:
            if kind >= FIRST and (end < DISCARDED or end >= FIRST):
                code = Code(int(end)) if end < FIRST else Code.SUCCESS
                yield POINTS[int(kind)], code, began, ended


class Tracing:
    """The tracing of attempts. `provider` and `exporter` come from the library. Call `close` at the
    end.
    """

    def __init__(self, provider: Any, exporter: Any, clock: Clock) -> None:
        self._provider = provider
        self._exporter = exporter
        self._tracer = provider.get_tracer("berth")
        self._clock = clock
        self._ended: SimpleQueue[tuple[TracedRecord, bool] | None] = SimpleQueue()
        self._maker = threading.Thread(target=self._make_spans, name="tracing", daemon=True)
        self._maker.start()

    def begin(
        self, info: PodInfo, profile: str, started: float, times: PointTimes, *, sampled: bool
    ) -> TracedRecord | None:
        """Returns the record of an attempt; None if the sampler drops it. If the attempt is
        `sampled`, the metrics also get the durations of its plugins.
        """
        metadata = info.pod.metadata
        offset = self._clock.wall().timestamp() - self._clock.now()
        span = self._tracer.start_span(
            "schedule pod",
            start_time=int((started + offset) * 1e9),
            attributes={
                "k8s.namespace.name": metadata.namespace,
                "k8s.pod.name": metadata.name,
                "k8s.pod.uid": metadata.uid,
                "scheduler.profile": profile,
            },
        )
        if not span.is_recording():
            return None
        return TracedRecord(self, times, span, offset, sampled=sampled)

    def finish(self, record: TracedRecord, *, failed: bool) -> None:
        """Passes an attempt to the thread that makes its spans."""
        if self._ended.qsize() < MOST_WAITING:
            self._ended.put((record, failed))
        else:
            log.warning("traces dropped", repeats="traces dropped")

    def close(self, seconds: float = FLUSH_SECONDS) -> None:
        """Sends the remaining traces, and waits for at most this time."""
        self._ended.put(None)

        def flush() -> None:
            self._maker.join(seconds)
            self._provider.shutdown()

        flushing = threading.Thread(target=flush, name="last traces", daemon=True)
        flushing.start()
        flushing.join(seconds)
        if flushing.is_alive():
            self._exporter.shutdown()  # It stops its attempts, so that the thread can end.

    def _make_spans(self) -> None:
        while (ended := self._ended.get()) is not None:
            record, failed = ended
            self._make(record, failed)

    def _make(self, record: TracedRecord, failed: bool) -> None:
        from opentelemetry.trace import StatusCode, set_span_in_context

        def span(parent: Any, name: str, code: Code, began: float) -> Any:
            started = self._tracer.start_span(
                name,
                set_span_in_context(parent),
                start_time=record.wall(began),
                attributes={"scheduler.status": code.label},
            )
            if code is Code.ERROR:
                started.set_status(StatusCode.ERROR)
            return started

        for point, code, began, ended in record.intervals():
            around = span(record.span, point, code, began)
            for plugin in record.plugins:
                within = began <= plugin.began and plugin.ended <= ended
                if within and plugin.point.startswith(point):
                    child = span(around, plugin.name, plugin.code, plugin.began)
                    child.set_attribute("scheduler.extension_point", plugin.point)
                    child.end(record.wall(plugin.ended))
            around.end(record.wall(ended))
        if failed:
            record.span.set_status(StatusCode.ERROR)
        record.span.end(record.wall(record.ended))


def tracing_from(environ: Mapping[str, str], clock: Clock) -> Tracing | None:
    """Returns the tracing that the environment configures.

    None if the environment configures no tracing, or traces that cannot be sent; then one line of
    the log says why.
    """
    problem = _problem(environ)
    if problem is None:
        return None
    if problem:
        log.warning("tracing is off", reason=problem)
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        named = next(name for name in ENDPOINTS if environ.get(name))
        reason = f"{named} is set, and the libraries are missing: install {EXTRA}"
        log.warning("tracing is off", reason=reason)
        return None
    _log_failures()
    try:
        # A provider of credentials brings a session of its own.
        exporter = OTLPSpanExporter(session=None if _has_provider(environ) else _session())
    except ValueError as invalid:
        log.warning("tracing is off", reason=str(invalid))
        return None
    resource = Resource.create()
    if resource.attributes[SERVICE_NAME] == "unknown_service":
        resource = resource.merge(Resource({SERVICE_NAME: SERVICE}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracing(provider, exporter, clock)


def _has_provider(environ: Mapping[str, str]) -> bool:
    return any(environ.get(name) for name in PROVIDERS)


def _session() -> Any:
    """Returns an HTTP session that reads only the beginning of an answer."""
    from requests import Response, Session

    def cut(response: Response, *_: object, **__: object) -> None:
        body = response.raw
        response.raw = BytesIO(body.read(MOST_ANSWERED, decode_content=True))
        body.close()

    session = Session()
    session.hooks["response"].append(cut)
    return session


def _problem(environ: Mapping[str, str]) -> str | None:
    """Returns why traces cannot be sent; "" if they can, None if none are configured."""

    def value(*names: str) -> str:
        return next((text for name in names if (text := environ.get(name, "").strip())), "")

    exporters = [each.strip() for each in value("OTEL_TRACES_EXPORTER").split(",") if each.strip()]
    disabled = value("OTEL_SDK_DISABLED").lower() == "true"
    if disabled or not value(*ENDPOINTS) or exporters == ["none"]:
        return None
    if exporters and "otlp" not in exporters:
        return f"OTEL_TRACES_EXPORTER: expected otlp or none, got {','.join(exporters)}"
    protocol = value(*PROTOCOLS)
    if protocol not in ("", PROTOCOL):
        return f"OTEL_EXPORTER_OTLP_PROTOCOL: expected {PROTOCOL}, got {protocol}"
    return ""


class _Failures(logging.Handler):
    """A log handler that passes on the warnings of the library, whose repeats the log leaves
    out.
    """

    def emit(self, record: logging.LogRecord) -> None:
        reason = record.getMessage()[:MOST_LOGGED]
        log.warning("traces not sent", reason=reason, repeats=record.msg)


def _log_failures() -> None:
    library = logging.getLogger("opentelemetry")
    library.handlers = [_Failures(logging.WARNING)]
    library.propagate = False
