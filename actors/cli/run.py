"""`berth run`: the daemon, with kube-scheduler's command line."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from random import Random
from typing import IO, Any

import anyio
import click
import msgspec

from berth.config.load import (
    ConfigError,
    validated,
)
from berth.config.options import Options

from ..attempt.flight_file import FlightFile
from ..client.credentials import KubeconfigError
from ..client.kubeconfig import load
from ..configuration.file import (
    ConfigurationFile,
    completed_text,
    file_or_default,
    warnings_of,
)
from ..leader.actor import LeaseLostError
from ..process import open_files
from ..process.collector import collecting, tune_collector
from ..process.heartbeat import Heartbeat
from ..process.memory import MemoryUsedUpError
from ..process.signals import until_signalled
from ..process.version import KUBERNETES, described
from ..process.watchdog import FLUSH_SECONDS, Watchdog
from ..runtime.clock import SystemClock
from ..scheduling.decision.overruns import interrupt
from ..scheduling.decision.registry import RegistryError
from ..scheduling.decision.whereabouts import whereabouts
from ..scheduling.framework.logger import get_logger
from ..server.lookup import LookupFailedError
from ..server.tls import ServingError
from ..system import run_scheduler
from ..telemetry.klog import UnquotedText
from ..telemetry.logs import configure_logs, flush_logs, write_error_line
from ..telemetry.tracing import tracing_from
from .flags.command import FlagCommand
from .flags.settings import FlagError, logging_from, options_from, warnings_about, with_flags
from .flags.table import Flags
from .plugin_options import plugin_option, reload_option

log = get_logger(__name__)


class RunError(click.ClickException):
    """The reason why the process ends. It is shown after the log, for which the process does not
    wait if nobody reads it.
    """

    def show(self, _file: IO[Any] | None = None) -> None:
        write_error_line(f"Error: {self.format_message()}")
        flush_logs(FLUSH_SECONDS)


@click.command(
    cls=FlagCommand,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@plugin_option
@reload_option
def run(flags: Flags, *, reloads: bool) -> None:
    """Schedule the pods of a cluster until stopped.

    The flags are those of kube-scheduler 1.36. SIGTERM and Ctrl-C stop it in order: bindings under
    way end, the lease is released, and the exit code is 0. If the lease is lost, the exit code is
    1, as after an end in order when the memory of the container is nearly used up. If the API
    server cannot be reached, it waits and tries again. SIGUSR2 logs the cache, and its differences
    from the API server; `berth debug` shows them too.

    \b
    In place of kube-scheduler, with its kubeconfig:
      berth run --kubeconfig /etc/kubernetes/scheduler.conf
    Beside kube-scheduler, with profiles of your own and every attempt in the log:
      berth run --config scheduler.yaml --leader-elect-resource-name berth -v 2
    Against `berth apiserver`, alone and without its own pages:
      berth run --master http://127.0.0.1:8001 --leader-elect=false --secure-port 0
    With a plugin that is not packaged yet:
      berth run --master http://127.0.0.1:8001 --plugin price.py:Price --reload
    """
    if flags["version"] != "false":
        if flags["version"].startswith("v"):
            _refuse_other_version(flags["version"])
        else:
            click.echo(described(raw=flags["version"] == "raw"))
            return
    try:
        options = msgspec.structs.replace(options_from(flags), reload_plugins=reloads)
    except FlagError as problem:
        raise click.UsageError(str(problem)) from None
    configure_logs(logging_from(flags), aside=True)
    open_files.raise_limit()
    try:
        _run(flags, options)
    finally:
        flush_logs(FLUSH_SECONDS)


def _run(flags: Flags, options: Options) -> None:
    for warning in warnings_about(flags):
        log.warning(warning)
    if log.shows(1):
        for name, text in options.flags.items():
            log.at(1, UnquotedText(f'FLAG: --{name}="{text}"'))
    try:
        _schedule(flags, options)
    except (
        ConfigError,
        RegistryError,
        KubeconfigError,
        LeaseLostError,
        LookupFailedError,
        MemoryUsedUpError,
        ServingError,
    ) as problem:
        raise RunError(str(problem)) from None
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        raise RunError(f"cannot start: {where}{problem.strerror or problem}") from None


def _schedule(flags: Flags, options: Options) -> None:
    file, gates = flags["config"], options.feature_gates
    source = (
        ConfigurationFile(file, gates, lambda read: validated(with_flags(read, flags)))
        if file
        else None
    )
    configuration = (
        validated(with_flags(file_or_default(None), flags))
        if source is None
        else source.parse(source.read())
    )
    if flags["write-config-to"]:
        text = completed_text(configuration, gates)
        Path(flags["write-config-to"]).write_text(text, encoding="utf-8")
        log.info("Wrote configuration", file=flags["write-config-to"])
        return
    for warning in warnings_of(configuration, b"" if source is None else source.parsed):
        log.warning("configuration", file=file, warning=warning)
    connection = load(
        configuration.client_connection.kubeconfig or None,
        master=flags["master"],
        option=f"clientConnection.kubeconfig in {file}" if file else "--kubeconfig",
    )
    tune_collector()
    clock = SystemClock()
    tracing = tracing_from(os.environ, clock)
    path, most_bytes = options.recorder_file, options.recorder_file_bytes
    flight_file = FlightFile(path, most_bytes, clock) if path else None
    watchdog = Watchdog(
        Heartbeat(),
        whereabouts,
        flush_logs,
        interrupt=interrupt,
        interrupt_seconds=min(options.plugin_call, options.plugin_interrupt),
    )
    daemon = partial(
        run_scheduler,
        configuration,
        connection,
        clock,
        Random(),
        options,
        source,
        tracing,
        flight_file,
        on_abandoned=watchdog.ends,
    )
    try:
        anyio.run(
            until_signalled,
            partial(collecting, daemon),
            watchdog,
            backend_options={"use_uvloop": True},
        )
    finally:
        if tracing is not None:
            tracing.close()
        if flight_file is not None:
            flight_file.flush(FLUSH_SECONDS)


def _refuse_other_version(version: str) -> None:
    """Raises click.UsageError for a `--version=` of another version. A suffix, as in v1.36.2-name,
    has no effect.
    """
    if version.partition("-")[0].partition("+")[0] != KUBERNETES:
        raise click.UsageError(f"--version: expected {KUBERNETES} with any suffix, got {version!r}")
