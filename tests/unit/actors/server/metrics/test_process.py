"""process_* and python_*: the values of prometheus_client's collectors, and three more."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from berth.actors.server.metrics.exposition import exposed
from berth.actors.server.metrics.process import LimitsAndNetwork, register_process
from berth.actors.telemetry.measures import Registry


def text_of(registry: Registry) -> str:
    asyncio.run(registry.refresh())
    return b"".join(exposed(registry.families())).decode()


class Two(Collector):
    def __init__(self) -> None:
        self.number = 0

    def collect(self) -> Iterator[Metric]:
        self.number += 1
        yield GaugeMetricFamily("process_open_fds", "Open files.", self.number)
        runs = CounterMetricFamily("python_gc_collections", "Runs.", labels=["generation"])
        runs.add_metric(["0"], self.number)
        runs.add_metric(["1"], 7)
        yield runs


def test_the_collectors_are_read_again_with_the_metrics() -> None:
    registry = Registry()
    register_process(registry, [Two()])
    text_of(registry)
    assert text_of(registry) == (
        "# HELP process_open_fds Open files.\n"
        "# TYPE process_open_fds gauge\n"
        "process_open_fds 3\n"
        "# HELP python_gc_collections_total Runs.\n"
        "# TYPE python_gc_collections_total counter\n"
        'python_gc_collections_total{generation="0"} 3\n'
        'python_gc_collections_total{generation="1"} 7\n'
    )


def test_the_bytes_of_the_network_are_those_of_the_kernel(tmp_path: Path) -> None:
    netstat = tmp_path / "netstat"
    netstat.write_text("TcpExt: A\nTcpExt: 1\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 5 9\n")
    values = {each.name: each.samples[0].value for each in LimitsAndNetwork(netstat).collect()}
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    assert values == {
        "process_virtual_memory_max_bytes": 2**64 - 1 if limit < 0 else limit,
        "process_network_receive_bytes": 5,
        "process_network_transmit_bytes": 9,
    }


def test_without_the_kernels_file_the_bytes_are_left_out(tmp_path: Path) -> None:
    names = [each.name for each in LimitsAndNetwork(tmp_path / "none").collect()]
    assert names == ["process_virtual_memory_max_bytes"]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_on_linux_every_family_of_kube_schedulers_process_is_there() -> None:
    registry = Registry()
    register_process(registry)
    text = text_of(registry)
    names = {line.split("{")[0].split()[0] for line in text.splitlines() if line[0] != "#"}
    assert {
        "process_cpu_seconds_total",
        "process_max_fds",
        "process_network_receive_bytes_total",
        "process_network_transmit_bytes_total",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
        "process_virtual_memory_bytes",
        "process_virtual_memory_max_bytes",
        "python_info",
    } <= names
    (files,) = [line for line in text.splitlines() if line.startswith("process_open_fds ")]
    assert abs(int(files.split()[1]) - len(os.listdir("/proc/self/fd"))) < 5  # noqa: PTH208
