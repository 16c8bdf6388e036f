"""Answers questions about pods: builds the plugins and the cluster, and decides."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from pathlib import Path

import anyio
import msgspec

from berth.actors.client.extender.calls import Extenders
from berth.actors.scheduling.decision.plain import Plain
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.registry import RegistryError
from berth.actors.scheduling.decision.sampling import every_node
from berth.actors.scheduling.framework.questions import run_without_extenders
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.gated_fields import GatedFields
from berth.actors.scheduling.kube.kinds import WatchedKind
from berth.actors.scheduling.kube.reading import Reader
from berth.actors.scheduling.kube.whole import with_json
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.actors.wiring.profiles import plugins_of, profiles_of
from berth.config.feature_gates import DEFAULTS
from berth.config.fields import path_first
from berth.config.load import ConfigError, from_mapping
from berth.config.types import KubeSchedulerConfiguration
from berth.plugin import Plugin

from .cluster_source import ClusterQuestion, Document, SourceError, from_scenario
from .decision import Decision, Explanation, Failure, rejected, steps
from .document_cluster import DocumentCluster
from .last_attempt import blocking_plugin
from .plugin_handle import HeldApi, HeldObjects, ReadOnlyHandle
from .tried_lives import TriedLives

CHUNK = 8
KEPT_OUT = "is kept out of the queue by the plugin"
BETWEEN_SECONDS = 60.0  # decisions: no search is cut short because of earlier ones


class Attempt(msgspec.Struct, frozen=True):
    """A question in the form that the scheduling algorithm takes."""

    configuration: KubeSchedulerConfiguration
    profile: Profile
    info: PodInfo
    cluster: DocumentCluster

    @property
    def snapshot(self) -> Snapshot:
        return self.cluster.snapshot()

    @property
    def held(self) -> tuple[str, ...]:
        """Returns why PreEnqueue of a plugin keeps the pod out of the queue: a sentence without its
        subject, or none. In-tree plugins are left out: the pod has its gates, and the decision
        itself tells of missing claims. What a plugin does that this configuration lacks is known
        from the pod's condition alone.
        """
        status = self.profile.pre_enqueue(self.info.pod)
        if not status.ok and not (status.rejected and status.plugin in IN_TREE):
            return (f"{KEPT_OUT} {status.plugin}: {status.message}",)
        blocked = blocking_plugin(self.info.pod)
        here = {plugin.name for plugin in self.profile.plugins}
        if blocked is None or blocked[0] in here:
            return ()
        return (f"{KEPT_OUT} {blocked[0]}, as its condition says: {blocked[1]}",)


class Explainer:
    """A decider with the plugins of one configuration, which get `handle`.

    `kinds` are the kinds that the plugins declare, and `others` plugins that no package registers.
    Raises ConfigError or RegistryError.
    """

    def __init__(
        self,
        configuration: KubeSchedulerConfiguration,
        gates: Mapping[str, bool] = DEFAULTS,
        objects: HeldObjects | None = None,
        others: Sequence[type[Plugin]] = (),
    ) -> None:
        self.configuration = configuration
        self._gates = gates
        self._held = HeldObjects() if objects is None else objects
        api = HeldApi(self._held)
        self.reads_from = api.reads_from  # a live cluster, kinds that plugins do not look up
        self.handle = ReadOnlyHandle(gates, self._held, api=api)
        self._profiles = profiles_of(configuration, self.handle, others=others)
        plugins = plugins_of(self._profiles)
        self._lives = TriedLives(plugins)
        lookups = (kind for plugin in plugins for kind in plugin.lookups)
        self.kinds = tuple(dict.fromkeys(kind for kind in lookups if isinstance(kind, WatchedKind)))
        self.handle.api.add_kinds(self.kinds)

    def attempt(self, question: ClusterQuestion, cluster: DocumentCluster | None = None) -> Attempt:
        """Returns the attempt at a question, in the `cluster` of its objects, if it is at hand.
        Raises SourceError.
        """
        whole = bool(self.configuration.extenders)
        self.handle.passed += BETWEEN_SECONDS
        try:
            pod = GatedFields(self._gates).drop(Reader(Pod).convert(question.pod))
            info = PodInfo(with_json(pod, msgspec.json.encode(question.pod)) if whole else pod)
            if cluster is None:
                cluster = self.cluster(question.objects, (info, question.pod))
        except msgspec.ValidationError as invalid:
            raise SourceError(path_first(invalid, Pod)) from None
        profile = self._profiles.get(pod.spec.scheduler_name)
        if profile is None:
            ours = ", ".join(self._profiles)
            raise SourceError(
                f"{info.key} belongs to the scheduler {pod.spec.scheduler_name!r} by its "
                f"spec.schedulerName; this configuration has {ours}"
            )
        return Attempt(self.configuration, profile, info, cluster)

    def cluster(
        self, objects: Iterable[Document], pending: tuple[PodInfo, Document] | None = None
    ) -> DocumentCluster:
        """Returns the cluster of these objects and a pending pod. From now on plugins see this
        cluster.

        Raises msgspec.ValidationError.
        """
        whole, held = bool(self.configuration.extenders), self._held
        held.clear()
        names = self._profiles.keys()
        cluster = DocumentCluster(names, self.kinds, self._gates, whole=whole, held=held)
        for document in objects:
            cluster.put(document)
        if pending is not None:
            info, document = pending
            held.hold([info.pod])
            cluster.put_declared({"apiVersion": "v1", "kind": "Pod", **document})
            if info.pod.status.nominated_node_name:
                cluster.nominate(info)
        self._lives.refresh()
        return cluster


def fitting_nodes(plain: Plain) -> list[str]:
    """Returns the nodes that a pod fits on, without scores and verdicts in words, which take most
    of the time. No extender is asked. Raises PluginError.
    """
    names = plain.snapshot.columns.names
    return [names[row] for row in plain.order[every_node(plain)[0]].tolist()]


def rejections(attempt: Attempt) -> Decision | Failure:
    """Returns the verdicts about all nodes, without preemption unless extenders are asked."""
    if attempt.configuration.extenders:
        return decided(attempt).decision
    return rejected(attempt.profile, attempt.info, attempt.snapshot)


def answer(question: ClusterQuestion) -> Explanation:
    """Returns the decision for a question.

    Raises SourceError, ConfigError or RegistryError.
    """
    return decided(Explainer(question.configuration).attempt(question))


def decided(attempt: Attempt) -> Explanation:
    """Returns the decision. Calls extenders as the scheduler does, but never to bind."""
    if attempt.configuration.extenders:
        return anyio.run(_with_extenders, attempt)
    return run_without_extenders(
        steps(attempt.profile, attempt.info, attempt.snapshot, extended=False)
    )


async def _with_extenders(attempt: Attempt) -> Explanation:
    async with Extenders(attempt.configuration.extenders) as extenders:
        extended = extenders.decide_on(attempt.info.pod)
        decision = steps(attempt.profile, attempt.info, attempt.snapshot, extended=extended)
        return await extenders.drive(attempt.info.pod, decision)


def answers(path: Path, gates: Mapping[str, bool]) -> Iterator[str]:
    """Yields a line for every scenario of a file, in the order of the file; uses all cores."""
    answer_line = partial(_answer_line, tuple(gates.items()))
    with path.open("rb") as file, ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        lines: Iterable[bytes] = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
        yield from pool.map(answer_line, _scenario_lines(lines), chunksize=CHUNK)


def _scenario_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    return (line for line in lines if line.strip())


def _answer_line(gates: tuple[tuple[str, bool], ...], line: bytes) -> str:
    decision: Decision | Failure
    name = ""
    try:
        name, question = from_scenario(line, dict(gates))
        configuration = msgspec.json.encode(question.configuration, enc_hook=str)
        decision = decided(_explainer(configuration, gates).attempt(question)).decision
    except (SourceError, ConfigError, RegistryError) as problem:
        decision = Failure(str(problem))
    return msgspec.json.encode({"name": name, "expect": decision}).decode()


@lru_cache(maxsize=64)
def _explainer(configuration: bytes, gates: tuple[tuple[str, bool], ...]) -> Explainer:
    values = dict(gates)
    return Explainer(from_mapping(msgspec.json.decode(configuration), values), values)
