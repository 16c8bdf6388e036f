"""`berth run`: the daemon, with kube-scheduler's names for its flags."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import anyio
import click
import msgspec

from berth.actors.client.credentials import KubeconfigError
from berth.actors.client.kubeconfig import load
from berth.actors.config_file import load_file
from berth.actors.leader.actor import LeaseLostError
from berth.actors.runtime.clock import SystemClock
from berth.actors.runtime.collector import collecting, tune_collector
from berth.actors.runtime.heartbeat import Heartbeat
from berth.actors.runtime.logs import configure_logs
from berth.actors.runtime.signals import until_signalled
from berth.actors.runtime.watchdog import Watchdog
from berth.actors.scheduling.decision.registry import RegistryError
from berth.actors.scheduling.decision.whereabouts import whereabouts
from berth.actors.system import run_scheduler
from berth.config.feature_gates import FeatureGateError, parse_gates, with_defaults
from berth.config.load import ConfigError, dump, from_mapping, validated
from berth.config.options import LoggingOptions, Options, SecureServing
from berth.config.profiles import ProfileError
from berth.config.types import Duration, KubeSchedulerConfiguration


class DurationParameter(click.ParamType[Duration]):
    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Duration:
        try:
            return value if isinstance(value, Duration) else Duration.parse(str(value))
        except ValueError as problem:
            self.fail(str(problem), param, ctx)


DURATION = DurationParameter()


@click.command()
@click.option(
    "--config", "file", type=click.Path(), metavar="FILE", help="A KubeSchedulerConfiguration file."
)
@click.option("--write-config-to", type=click.Path(path_type=Path), metavar="FILE",
              help="Write the configuration with all its defaults to FILE, and exit.")  # fmt: skip
@click.option(
    "--master", default="", metavar="URL", help="The API server; overrides the kubeconfig's."
)
@click.option("--kubeconfig", default="", metavar="FILE",
              help="How to reach the API server; without it and --master, as a pod.")  # fmt: skip
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Schedule only while holding the lease. [default: on]",
)
@click.option(
    "--leader-elect-lease-duration", "lease_duration", type=DURATION, help="[default: 15s]"
)
@click.option(
    "--leader-elect-renew-deadline", "renew_deadline", type=DURATION, help="[default: 10s]"
)
@click.option("--leader-elect-retry-period", "retry_period", type=DURATION, help="[default: 2s]")
@click.option(
    "--leader-elect-resource-lock", "resource_lock", metavar="KIND", help="[default: leases]"
)
@click.option(
    "--leader-elect-resource-name",
    "resource_name",
    metavar="NAME",
    help="[default: kube-scheduler]",
)
@click.option(
    "--leader-elect-resource-namespace",
    "resource_namespace",
    metavar="NAME",
    help="[default: kube-system]",
)
@click.option(
    "--kube-api-qps",
    "qps",
    type=float,
    help="Requests a second, on average; ignored with --config. [default: 50]",
)
@click.option(
    "--kube-api-burst",
    "burst",
    type=int,
    help="Requests at once; ignored with --config. [default: 100]",
)
@click.option("--feature-gates", default="", metavar="NAME=BOOL,...",
              help="Feature gates: checked, and passed to plugins.")  # fmt: skip
@click.option("--pod-max-in-unschedulable-pods-duration", "max_unschedulable",
              type=DURATION, default="5m", show_default=True,
              help="A pod parked for this long is tried again, even without an event.")  # fmt: skip
@click.option("--bind-address", default="127.0.0.1", show_default=True, metavar="HOST",
              help="Address of health, metrics, configuration and debug pages (HTTP).")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True,
              help="Their port, such as 10251; 0 serves nothing.")  # fmt: skip
@click.option(
    "--logging-format", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@click.option("-v", "--v", "verbosity", type=click.IntRange(0, 10), default=2, show_default=True,
              help="How much to log; every decision from 4 on.")  # fmt: skip
def run(
    file: str | None,
    write_config_to: Path | None,
    master: str,
    kubeconfig: str,
    feature_gates: str,
    max_unschedulable: Duration,
    bind_address: str,
    port: int,
    logging_format: str,
    verbosity: int,
    qps: float | None,
    burst: int | None,
    **election: Any,
) -> None:
    """Schedule the pods of a cluster until stopped.

    SIGTERM and Ctrl-C stop it in order: bindings under way end, the lease is released, and the exit
    code is 0. If the lease is lost, the exit code is 1. If the API server cannot be reached, it
    waits and tries again. SIGUSR2 logs the cache, and its differences from the API server;
    `berth debug` shows them too.

    \b
    berth run --kubeconfig ~/.kube/config
    berth run --config scheduler.yaml -v 4
    berth run --master http://127.0.0.1:8001 --no-leader-elect
    """
    configure_logs(LoggingOptions(logging_format, verbosity))
    try:
        configuration = load_file(file) if file else from_mapping(None)
        if not file:
            configuration = _with(configuration, "client_connection", {"qps": qps, "burst": burst})
        configuration = validated(_with(configuration, "leader_election", election))
        gates = with_defaults(parse_gates(feature_gates))
        if write_config_to is not None:
            write_config_to.write_text(dump(configuration), encoding="utf-8")
            return
        connection = load(
            kubeconfig or configuration.client_connection.kubeconfig or None, master=master
        )
        serving = SecureServing(bind_address, port) if port else None
        options = Options(max_unschedulable, gates, serving)
        tune_collector()
        daemon = partial(run_scheduler, configuration, connection, SystemClock(), Random(), options)
        watchdog = Watchdog(Heartbeat(), whereabouts)
        anyio.run(
            until_signalled,
            partial(collecting, daemon),
            watchdog,
            backend_options={"use_uvloop": True},
        )
    except (
        ConfigError,
        RegistryError,
        ProfileError,
        FeatureGateError,
        KubeconfigError,
        LeaseLostError,
    ) as problem:
        raise click.ClickException(str(problem)) from None
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        raise click.ClickException(f"cannot start: {where}{problem.strerror or problem}") from None


def _with(
    configuration: KubeSchedulerConfiguration, part: str, given: dict[str, Any]
) -> KubeSchedulerConfiguration:
    """The configuration with one of its parts changed to the values that are not None."""
    changed = msgspec.structs.replace(
        getattr(configuration, part),
        **{name: value for name, value in given.items() if value is not None},
    )
    return msgspec.structs.replace(configuration, **{part: changed})
