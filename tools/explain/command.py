"""`berth explain`: the decision for one pod, in full."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from pathlib import Path

import anyio
import click
import msgspec
from rich.console import Console

from berth.actors.client.credentials import KubeconfigError
from berth.actors.client.extender.calls import Extenders
from berth.actors.client.kubeconfig import load
from berth.actors.client.rest import ConnectionFailedError
from berth.actors.configuration.file import load_file
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.registry import RegistryError
from berth.actors.scheduling.framework.questions import unasked
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.gated_fields import GatedFields
from berth.actors.scheduling.kube.kinds import WatchedKind
from berth.actors.scheduling.kube.reading import Reader
from berth.actors.scheduling.kube.whole import with_json
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.telemetry.logs import configure_logs
from berth.actors.wiring.profiles import profiles_of
from berth.config.feature_gates import (
    DEFAULTS,
    FeatureGateError,
)
from berth.config.fields import path_first
from berth.config.load import (
    ConfigError,
    from_mapping,
)
from berth.config.types import KubeSchedulerConfiguration

from ..feature_gates import feature_gates_option, gates_from
from .cluster import snapshot_of
from .decision import Decision, Explanation, Failure, steps
from .devices import supply
from .handle import ReadOnlyHandle
from .report import show
from .source import Question, SourceError, from_cluster, from_manifests, from_scenario
from .volumes import demands

CHUNK = 8


class Attempt(msgspec.Struct, frozen=True):
    """A question in the form that the scheduling algorithm takes."""

    configuration: KubeSchedulerConfiguration
    profile: Profile
    info: PodInfo
    snapshot: Snapshot


@click.command()
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="The cluster: manifests, or folders of them; repeatable.",
)
@click.option(
    "--kubeconfig", default="", metavar="FILE", help="The cluster: a live one, by its kubeconfig."
)
@click.option(
    "--master", default="", metavar="URL", help="The cluster: a live one, by its API server's URL."
)
@click.option(
    "--pod", metavar="NAMESPACE/NAME", help="The pod; the namespace default may be omitted."
)
@click.option(
    "--config", "file", type=click.Path(), metavar="FILE", help="A KubeSchedulerConfiguration file."
)
@feature_gates_option
@click.option(
    "--scenario",
    "scenarios",
    metavar="FILE",
    help="Lines of {name, config, objects, pod}, also .gz; - reads one from standard input.",
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
def explain(
    paths: tuple[Path, ...],
    kubeconfig: str,
    master: str,
    pod: str | None,
    file: str | None,
    feature_gates: tuple[str, ...],
    scenarios: str | None,
    output: str,
) -> None:
    """Explain where a pod would be placed, and why.

    Shows every node's verdict, every plugin's score, what the pod's volumes ask of the nodes, which
    devices its claims would get on each node, and the message that a user would read. The pod is
    treated as if it were pending now. The extenders of the configuration are called, but nothing is
    written. With -o json, the answer also has the pods that preemption would evict, but neither the
    volumes nor the reasons why devices are short.

    \b
    berth explain -f cluster.yaml --pod shop/web-1
    berth explain --kubeconfig ~/.kube/config --pod web-1 -o json
    berth explain --scenario decisions.jsonl.gz
    """
    configure_logs(quiet=True)
    try:
        gates = gates_from(feature_gates)
        if scenarios is not None and scenarios != "-":
            for line in answers(Path(scenarios), gates):
                click.echo(line)
            return
        handle = ReadOnlyHandle(gates)
        question, profiles = _question(paths, kubeconfig, master, pod, file, scenarios, handle)
        attempt = _attempt(question, profiles, gates)
        explained = _decided(attempt)
    except (
        SourceError,
        ConfigError,
        FeatureGateError,
        RegistryError,
        KubeconfigError,
        ConnectionFailedError,
    ) as problem:
        raise click.ClickException(str(problem)) from None
    except OSError as problem:
        raise click.ClickException(f"{scenarios}: cannot be read: {problem.strerror}") from None
    if output == "json":
        click.echo(msgspec.json.encode(explained.decision))
    else:
        plugins = {plugin.name for plugin in attempt.profile.plugins}
        volumes = demands(attempt.info, attempt.snapshot, plugins)
        devices = supply(attempt.info, attempt.snapshot, attempt.profile.filters)
        show(explained, volumes, devices, question.pod["metadata"], Console())


def _question(
    paths: tuple[Path, ...],
    kubeconfig: str,
    master: str,
    pod: str | None,
    file: str | None,
    scenarios: str | None,
    handle: ReadOnlyHandle,
) -> tuple[Question, dict[str, Profile]]:
    """Returns the question, and the profiles of its configuration."""
    if scenarios == "-":
        question = from_scenario(sys.stdin.readline())[1]
        return question, profiles_of(question.configuration, handle)
    if pod is None:
        raise SourceError("--pod: expected NAMESPACE/NAME, or --scenario")
    namespace, name = pod.split("/", 1) if "/" in pod else ("default", pod)
    configuration = load_file(file) if file else from_mapping(None)
    profiles = profiles_of(configuration, handle)
    kinds = _declared(profiles)
    if paths:
        return from_manifests(paths, namespace, name, configuration, kinds), profiles
    if not kubeconfig and not master:
        raise SourceError("the cluster: expected -f, --kubeconfig or --master")
    connection = load(kubeconfig or None, master=master)
    question = anyio.run(from_cluster, connection, namespace, name, configuration, kinds)
    return question, profiles


def _declared(profiles: Mapping[str, Profile]) -> tuple[WatchedKind, ...]:
    """Returns the kinds that plugins declare themselves."""
    lookups = (kind for p in profiles.values() for plugin in p.plugins for kind in plugin.lookups)
    return tuple(dict.fromkeys(kind for kind in lookups if isinstance(kind, WatchedKind)))


def answer(question: Question) -> Explanation:
    """Returns the decision for a question.

    Raises SourceError, ConfigError or RegistryError.
    """
    profiles = profiles_of(question.configuration, ReadOnlyHandle())
    return _decided(_attempt(question, profiles, DEFAULTS))


def _attempt(
    question: Question, profiles: dict[str, Profile], gates: Mapping[str, bool]
) -> Attempt:
    whole = bool(question.configuration.extenders)
    try:
        pod = GatedFields(gates).drop(Reader(Pod).convert(question.pod))
        info = PodInfo(with_json(pod, msgspec.json.encode(question.pod)) if whole else pod)
        snapshot = snapshot_of(
            question.objects, profiles.keys(), info, _declared(profiles), gates, whole=whole
        )
    except msgspec.ValidationError as invalid:
        raise SourceError(path_first(invalid, Pod)) from None
    profile = profiles.get(pod.spec.scheduler_name)
    if profile is None:
        ours = ", ".join(profiles)
        raise SourceError(
            f"spec.schedulerName: expected one of {ours}, got {pod.spec.scheduler_name!r}"
        )
    return Attempt(question.configuration, profile, info, snapshot)


def _decided(attempt: Attempt) -> Explanation:
    if attempt.configuration.extenders:
        return anyio.run(_with_extenders, attempt)
    return unasked(steps(attempt.profile, attempt.info, attempt.snapshot, extended=False))


async def _with_extenders(attempt: Attempt) -> Explanation:
    """Decides with extenders, called as the scheduler would call them, but never to bind."""
    async with Extenders(attempt.configuration.extenders) as extenders:
        extended = extenders.decide_on(attempt.info.pod)
        decided = steps(attempt.profile, attempt.info, attempt.snapshot, extended=extended)
        return await extenders.drive(attempt.info.pod, decided)


def answers(path: Path, gates: Mapping[str, bool]) -> Iterator[str]:
    """Yields a line for every scenario of a file, in the order of the file; uses all cores."""
    answer_line = partial(_answer_line, tuple(gates.items()))
    with path.open("rb") as file, ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        lines: Iterable[bytes] = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
        yield from pool.map(answer_line, _lines(lines), chunksize=CHUNK)


def _lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    return (line for line in lines if line.strip())


def _answer_line(gates: tuple[tuple[str, bool], ...], line: bytes) -> str:
    decision: Decision | Failure
    name = ""
    try:
        name, question = from_scenario(line)
        profiles = _profiles(msgspec.json.encode(question.configuration, enc_hook=str), gates)
        decision = _decided(_attempt(question, profiles, dict(gates))).decision
    except (SourceError, ConfigError, RegistryError) as problem:
        decision = Failure(str(problem))
    return msgspec.json.encode({"name": name, "expect": decision}).decode()


@lru_cache(maxsize=64)
def _profiles(configuration: bytes, gates: tuple[tuple[str, bool], ...]) -> dict[str, Profile]:
    handle = ReadOnlyHandle(dict(gates))
    return profiles_of(from_mapping(msgspec.json.decode(configuration)), handle)
