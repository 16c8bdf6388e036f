"""Tracing: the spans of attempts arrive at an OTLP receiver, and nothing waits for them."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from berth.actors.telemetry.instruments import Instruments
from berth.actors.telemetry.measures import Registry
from berth.actors.telemetry.tracing import Tracing, tracing_from
from tests.kit.daemon import Daemon, daemon
from tests.kit.instruments import Reader
from tests.kit.logs import capture_logs
from tests.kit.processes import free_port

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class Receiver(ThreadingHTTPServer):
    """A server that takes traces as an OpenTelemetry collector does."""

    daemon_threads = True

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.size = 0  # of an answer, as far as nobody has read it
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        assert self.path == "/v1/traces"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):  # The client has closed the connection.
            while self.server.size:
                self.server.size -= self.wfile.write(bytes(1 << 20))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Has none of the library's variables; each test sets those that it needs."""
    import os

    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    return dict(os.environ)


def traced(monkeypatch: pytest.MonkeyPatch, running: Daemon, **variables: str) -> Tracing | None:
    import os

    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return tracing_from(os.environ, running.clock)


@contextmanager
def closing(tracing: Tracing | None) -> Iterator[Tracing]:
    assert tracing is not None
    try:
        yield tracing
    finally:
        tracing.close()


def attributes(span: Span) -> dict[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in span.attributes}


def children(spans: list[Span], parent: Span) -> list[Span]:
    below = [span for span in spans if span.parent_span_id == parent.span_id]
    return sorted(below, key=lambda span: span.start_time_unix_nano)


async def test_an_attempt_is_a_span_with_one_for_each_extension_point_and_plugin(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Daemon()
    endpoint = f"http://127.0.0.1:{receiver.server_port}"
    with closing(traced(monkeypatch, running, **{ENDPOINT: endpoint})) as tracing:
        registry = Registry()
        instruments = Instruments(registry, running.clock.now, tracing=tracing)
        async with daemon(existing=running, instruments=instruments):
            running.put_node("n")
            running.put_node("m")
            running.put_pod("p")
            running.put_pod("big", "64")
            await running.advance(2)
            node = running.node_of("p")
    roots = {
        attributes(span)["k8s.pod.name"]: span
        for span in receiver.spans
        if span.name == "schedule pod"
    }
    assert attributes(roots["p"]) == {
        "k8s.namespace.name": "default",
        "k8s.pod.name": "p",
        "k8s.pod.uid": "pod-p",
        "k8s.node.name": node,
        "scheduler.profile": "default-scheduler",
        "scheduler.result": "scheduled",
    }
    assert attributes(roots["big"])["scheduler.result"] == "unschedulable"
    points = children(receiver.spans, roots["p"])
    expected = {"PreFilter", "Filter", "PreScore", "Score", "Reserve", "PreBindPreFlight", "Bind"}
    assert {span.name for span in points} == expected
    (bind,) = (span for span in points if span.name == "Bind")
    (binder,) = children(receiver.spans, bind)
    assert binder.name == "DefaultBinder"
    assert attributes(binder) == {
        "scheduler.extension_point": "Bind",
        "scheduler.status": "Success",
    }
    filtering = next(span for span in points if span.name == "Filter")
    assert "NodeResourcesFit" in {span.name for span in children(receiver.spans, filtering)}
    assert "PostFilter" in {span.name for span in children(receiver.spans, roots["big"])}
    began = running.clock.wall().timestamp()
    assert abs(roots["p"].start_time_unix_nano / 1e9 - began) < 60
    # The metrics have the same attempts.
    instruments.settle()
    counted = Reader(registry).numbers("framework_extension_point_duration_seconds")
    assert counted["Bind", "Success", "default-scheduler"] == 1
    assert counted["PreFilter", "Success", "default-scheduler"] == 2


async def test_an_answer_is_read_up_to_a_limit(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.size = 1 << 28
    running = Daemon()
    endpoint = f"http://127.0.0.1:{receiver.server_port}"
    with closing(traced(monkeypatch, running, **{ENDPOINT: endpoint})) as tracing:
        instruments = Instruments(Registry(), running.clock.now, tracing=tracing)
        async with daemon(existing=running, instruments=instruments):
            running.put_node("n")
            running.put_pod("p")
            await running.advance(2)
    assert receiver.spans
    assert receiver.size > 1 << 27


async def test_the_sampler_leaves_attempts_out(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Daemon()
    endpoint = f"http://127.0.0.1:{receiver.server_port}"
    variables = {ENDPOINT: endpoint, "OTEL_TRACES_SAMPLER": "always_off"}
    with closing(traced(monkeypatch, running, **variables)) as tracing:
        instruments = Instruments(Registry(), running.clock.now, tracing=tracing)
        async with daemon(existing=running, instruments=instruments):
            running.put_node("n")
            running.put_pod("p")
            await running.advance(2)
            assert running.node_of("p") == "n"
    assert not receiver.spans


@pytest.mark.full("wall clock")
async def test_an_endpoint_that_cannot_be_reached_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running = Daemon()
    variables = {ENDPOINT: f"http://127.0.0.1:{free_port()}"}
    tracing = traced(monkeypatch, running, **variables)
    assert tracing is not None
    instruments = Instruments(Registry(), running.clock.now, tracing=tracing)
    async with daemon(existing=running, instruments=instruments):
        running.put_node("n")
        running.put_pod("p")
        await running.advance(2)
        assert running.node_of("p") == "n"
    started = time.monotonic()
    tracing.close(0.2)
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {ENDPOINT: ""},
        {ENDPOINT: "http://localhost:4318", "OTEL_SDK_DISABLED": "true"},
        {ENDPOINT: "http://localhost:4318", "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_TRACES_EXPORTER": "otlp"},
    ],
)
def test_no_traces_are_made_unless_they_are_asked_for(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with capture_logs() as lines:
        assert traced(monkeypatch, Daemon(), **variables) is None
    assert not lines


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        (
            {"OTEL_TRACES_EXPORTER": "zipkin"},
            "OTEL_TRACES_EXPORTER: expected otlp or none, got zipkin",
        ),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: expected http/protobuf, got grpc",
        ),
    ],
)
def test_what_cannot_be_sent_is_said_in_one_line(
    variables: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {ENDPOINT: "http://localhost:4318", **variables}
    with capture_logs() as lines:
        assert traced(monkeypatch, Daemon(), **settings) is None
    (line,) = lines
    assert (line["event"], line["reason"]) == ("tracing is off", reason)


def test_without_the_libraries_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with capture_logs() as lines:
        tracing = traced(
            monkeypatch, Daemon(), OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="http://localhost:4318"
        )
    assert tracing is None
    (line,) = lines
    assert line["reason"] == (
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set, and the libraries are missing: "
        "install berth-scheduler[tracing]"
    )
