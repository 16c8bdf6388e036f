"""One decision without a cluster: the scheduling algorithm on the objects of a test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from berth.actors.client.rest import ApiError
from berth.actors.configuration.plugin_files import plugins_of_files
from berth.actors.scheduling.decision.outcome import Choice, DecisionFailure, Unfit
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.kube.kinds import BY_KIND as WATCHED
from berth.config.feature_gates import with_defaults
from berth.config.versions import CURRENT, emulated

from ..answers.explain import decision as explained
from ..answers.explain.cluster_source import ClusterQuestion
from ..answers.explain.decider import Attempt, Explainer, decided
from ..answers.explain.pod_claims import with_claims
from ..answers.manifests.manifests import (
    ManifestError,
    is_unknown_version,
    kind_of,
    shown_name,
)
from ..kubernetes.api.rules.validation import problems
from ..kubernetes.api.types.api_documents import RefusedError
from ..kubernetes.api.types.defaults import defaulted
from ..kubernetes.api.types.document_cache import cached_by_document
from ..kubernetes.api.types.resources import BY_KIND, Kind
from ..kubernetes.api.writes.refusals import refuse_invalid
from .added_objects import check_json
from .configuration import NO_ARGS, Args, Configuration, Plugins, configuration_of, with_plugins
from .devices.known_devices import Devices

Document = dict[str, Any]
MOST_KEPT = 64  # configurations whose plugins are kept for the next decision
PODS = BY_KIND["v1", "Pod"]
DEVICES = "resource.k8s.io"
# Kinds that a scheduler reads, but for one that gets addresses before the rules see it.
RULED = WATCHED.keys() - {("v1", "Service")}
_explainers: dict[tuple[bytes, Plugins], Explainer] = {}


class PodDecision:
    """What the scheduler decides about a pod.

    `node` is where it goes, "" if it fits nowhere, or if PreEnqueue keeps it out of the queue, as
    for a scheduling gate; `message` says why then. `nominated` is the node
    on which preemption would make room, and `victims` the pods that would have to go, as
    namespace/name.
    """

    def __init__(self, attempt: Attempt, rng: Random) -> None:
        self._attempt = attempt
        self.node, self.message, self.nominated = "", "", ""
        self.victims: list[str] = []
        held = attempt.profile.pre_enqueue(attempt.info.pod)
        if not held.ok:
            self.message = held.message
            return
        outcome = Scheduler(rng).schedule(attempt.profile, attempt.info, attempt.snapshot)
        match outcome:
            case Choice(node):
                self.node = node
            case Unfit(message, nomination=nomination):
                self.message = message
                if nomination is not None:
                    self.nominated = nomination.node
                    self.victims = sorted(pod.key for pod in nomination.victims)
            case DecisionFailure(status):
                self.message = status.message

    def __repr__(self) -> str:
        return f"<on {self.node}>" if self.node else f"<pending: {self.message}>"

    @property
    def scores(self) -> Mapping[str, int]:
        """The sum of the plugins' weighted scores, by node that the pod fits on."""
        return self._explained.total

    @property
    def scores_by_plugin(self) -> Mapping[str, Mapping[str, int]]:
        """The weighted scores by plugin, and by node that the pod fits on."""
        return self._explained.score

    @property
    def rejections(self) -> Mapping[str, list[str]]:
        """Why the pod does not fit, by node."""
        verdicts = self._explained.filter.items()
        return {node: verdict.reasons for node, verdict in verdicts if verdict.plugin}

    @cached_property
    def _explained(self) -> explained.Decision:
        found = decided(self._attempt).decision
        if isinstance(found, explained.Decision):
            return found
        raise ValueError(found.error)


def decide(
    pod: Document,
    nodes: Document | Iterable[Document],
    *others: Document | Devices,
    config: Configuration = None,
    feature_gates: Mapping[str, bool] | None = None,
    version: str = CURRENT.text,
    seed: int = 1,
    plugins: Plugins = (),
    args: Args = NO_ARGS,
) -> PodDecision:
    """Decides about a pod on a node or several; `others` are further objects, such as pods that are
    on nodes, and devices of the nodes. `seed` breaks ties. `plugins` are classes, which are enabled
    in every profile that does not name them, and `args` their arguments by name.

    The plugins of a configuration are made once. Raises ManifestError for fields that a kind does
    not have, ApiError for values that the API server refuses, TypeError for what is no pod or no
    object, and ConfigError, RegistryError, FeatureGateError, ValueError or SourceError for what
    cannot be used.
    """
    explainer = _explainer(config, feature_gates, version, plugins, args)
    there = [nodes] if isinstance(nodes, dict) else list(nodes)
    given = _checked_pod(pod)
    complete = [_checked(each) for other in others for each in _documents(other, there)]
    return _decided(explainer, given, [*map(_checked, there), *complete], seed)


def decide_stored(
    pod: Document,
    objects: list[Document],
    config: Configuration,
    version: str,
    feature_gates: Mapping[str, bool] | None = None,
) -> PodDecision:
    """Decides about a pod of a cluster. The objects around it are taken as an API server has stored
    them, even one that knows other fields. Raises what `decide` raises for a configuration and,
    with SourceError, for what no scheduler of it can read.
    """
    return _decided(_explainer(config, feature_gates, version, (), NO_ARGS), pod, objects, 1)


def _explainer(
    config: Configuration,
    feature_gates: Mapping[str, bool] | None,
    version: str,
    plugins: Plugins,
    args: Args,
) -> Explainer:
    """Returns who decides by a configuration, with its plugins; for a file, by its content."""
    content = config.read_bytes() if isinstance(config, Path) and config.is_file() else b""
    settings = config, feature_gates, version, args
    key = (
        msgspec.json.encode((*settings, content), enc_hook=str),
        (*plugins, *plugins_of_files().values()),
    )
    explainer = _explainers.get(key)
    if explainer is None:
        gates = with_defaults(feature_gates or {}, emulated(version))
        configuration = with_plugins(configuration_of(config, gates, plugins), plugins, args)
        explainer = Explainer(configuration, gates, others=plugins)
        if len(_explainers) >= MOST_KEPT:
            _explainers.clear()
        _explainers[key] = explainer
    return explainer


def _decided(
    explainer: Explainer, pod: Document, objects: list[Document], seed: int
) -> PodDecision:
    subject, created = with_claims(pod, partial(_found, objects), defaulted)
    question = ClusterQuestion(subject, [*objects, *created], explainer.configuration)
    return PodDecision(explainer.attempt(question), Random(seed))


def _documents(other: Document | Devices, nodes: list[Document]) -> list[Document]:
    return other.on(nodes) if isinstance(other, Devices) else [other]


def _checked_pod(pod: Document) -> Document:
    """Returns the pod with its defaults. Raises TypeError if it is none, and the errors of
    `_checked`.
    """
    if not isinstance(pod, dict):
        raise TypeError(f"expected a Pod as a mapping, got {pod!r:.80}")
    check_json(pod, "Pod")
    named = {"apiVersion": "v1", "kind": "Pod", **pod}
    if kind_of(named, "decide") is not PODS:
        raise TypeError(f"expected a Pod, got {shown_name(named)}")
    complete = defaulted(PODS, pod)
    _refuse(PODS, complete, problems(PODS.type_name, complete))
    return complete


def _checked(document: Document) -> Document:
    """Returns an object, one of dynamic resource allocation with its defaults. Kinds that are not
    Kubernetes' are not known, and are not checked.

    Raises TypeError for what is no object, ManifestError for fields that its kind does not have,
    and ApiError for values that the API server refuses.
    """
    if not isinstance(document, dict):
        raise TypeError(f"expected an object as a mapping, got {document!r:.80}")
    named = document.get("apiVersion", ""), document.get("kind", "")
    if not all(named):
        got = f"{document!r:.80}"
        raise ManifestError(f"decide: expected an object with apiVersion and kind, got {got}")
    if named not in BY_KIND and not is_unknown_version(*named):
        return document
    kind = kind_of(document, "decide")
    if named in RULED:
        try:
            found = _problems(document)
        except (TypeError, UnicodeEncodeError):  # the cache cannot keep it
            check_json(document, kind.kind)
            raise
        _refuse(kind, document, found)
    return defaulted(kind, document) if kind.group == DEVICES else document


@cached_by_document
def _problems(document: Document) -> list[str]:
    """Returns what the API server finds in an object, as its rules do; nodes are often the same in
    many decisions.
    """
    kind = BY_KIND[document["apiVersion"], document["kind"]]
    check_json(document, kind.kind)
    return problems(kind.type_name, defaulted(kind, document))


def _refuse(kind: Kind, document: Document, found: list[str]) -> None:
    """Raises ApiError with these problems, if there are any, as a cluster does."""
    try:
        refuse_invalid(kind, document, found)
    except RefusedError as refused:
        raise ApiError(refused.code, refused.reason, str(refused)) from None


def _found(objects: list[Document], kind: str, name: str, namespace: str) -> Document | None:
    for each in objects:
        if each.get("kind") == kind:
            metadata = each["metadata"]
            if (metadata["name"], metadata.get("namespace", "default")) == (name, namespace):
                return each
    return None
