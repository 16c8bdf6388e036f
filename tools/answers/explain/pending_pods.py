"""The pending pods of a cluster, each with its decision in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import msgspec
from rich.console import Console
from rich.table import Table

from berth.actors.scheduling.kube.core import FINISHED, Node
from berth.config.types import KubeSchedulerConfiguration

from ...kubernetes.objects.structs import read
from .asks.node_asks import asks_of
from .cause import Cause
from .cluster_source import ClusterQuestion, Document, SourceError, question_about
from .decider import Attempt, Explainer, decided
from .decision import Decision, Explanation
from .decision_report import conclusion, sentence_of
from .empty_workloads import Podless, finds_a_node
from .last_attempt import binding_failure
from .on_node import OnNode, on_node
from .pinned_pods import waiting_claims
from .reasons.cause_search import standing_causes
from .reasons.pod_causes import PodCauses
from .subject import Subject
from .tried_cluster import TriedCluster
from .words import shown


class PendingPod(msgspec.Struct, frozen=True):
    """A pending pod: why the scheduler does not try it now, if it does not, and the decision, each
    also as causes.
    """

    namespace: str
    name: str
    standing: tuple[str, ...]
    decision: str
    causes: list[Cause]


class WithoutPods(msgspec.Struct, frozen=True):
    """A workload that has none of the pods that it asks for, and the decision for one of them."""

    workload: str
    asks: int
    decision: str
    placed: bool
    causes: list[Cause] = []


class _Sentence(msgspec.Struct, frozen=True):
    """A decision in a sentence and as causes, whether the pod would get a node, and why it is not
    tried now, if it is not.
    """

    text: str
    placed: bool
    standing: tuple[str, ...]
    causes: list[Cause]


class Elsewhere(msgspec.Struct, frozen=True):
    """The numbers of pending pods, and of workloads without pods, in the namespaces that are not
    shown.
    """

    pods: int
    workloads: int


class ListedPods(msgspec.Struct, frozen=True):
    """The pending pods, and the workloads without pods."""

    pods: list[PendingPod]
    without_pods: list[WithoutPods]
    elsewhere: Elsewhere


def pending(
    explainer: Explainer,
    configuration: KubeSchedulerConfiguration,
    objects: list[Document],
    namespace: str | None,
    *,
    templates: bool = False,
) -> ListedPods:
    """Returns the pods of a namespace (None: of all) that have no node, or have one and keep claims
    waiting by it, and the workloads without pods, in the order of their names. The objects have all
    `templates` of device claims, or none that a pod can miss. Raises SourceError.
    """
    tried = TriedCluster(explainer, objects)
    podless = _workloads_without_pods(objects)
    ask = partial(
        question_about, documents=objects, configuration=configuration, templates=templates
    )
    without = list(_without_pods(tried, ask, namespace, podless))
    pods = []
    waiting = [document for document in objects if _is_pending(document, objects)]
    chosen = [each for each in waiting if namespace in (None, each["metadata"].get("namespace"))]
    # Those with a node come last, as they are tried in a cluster without themselves.
    for document in sorted(chosen, key=lambda each: bool(each["spec"].get("nodeName"))):
        metadata = document["metadata"]
        subject = Subject("Pod", metadata["namespace"], metadata["name"])
        question = ask(subject)
        said = _decision(tried, question)
        pods.append(
            PendingPod(subject.namespace, subject.name, said.standing, said.text, said.causes)
        )
    return ListedPods(
        sorted(pods, key=lambda pod: (pod.namespace, pod.name)),
        sorted(without, key=lambda of: of.workload),
        Elsewhere(
            len(waiting) - len(chosen),
            sum(namespace not in (None, subject.namespace) for subject in podless),
        ),
    )


def _workloads_without_pods(objects: list[Document]) -> dict[Subject, int]:
    """Returns the workloads without pods, and how many pods each asks for."""
    nodes = [read(document, Node) for document in objects if document["kind"] == "Node"]
    found = {}
    for (kind, within, name), asks in Podless(objects).workloads().items():
        subject = Subject(kind, within, name)
        workload = subject.is_in(objects)
        if workload and finds_a_node(workload, nodes):
            found[subject] = asks
    return found


def _without_pods(
    tried: TriedCluster,
    ask: Callable[[Subject], ClusterQuestion],
    namespace: str | None,
    podless: dict[Subject, int],
) -> Iterator[WithoutPods]:
    for subject, asks in podless.items():
        if namespace not in (None, subject.namespace):
            continue
        try:
            question = ask(subject)
        except SourceError as problem:
            yield WithoutPods(str(subject), asks, str(problem), placed=False)
            continue
        said = _decision(tried, question)
        text, placed = said.text, said.placed
        if said.standing:
            text, placed = sentence_of(said.standing, text), bool(question.its_node)
        yield WithoutPods(str(subject), asks, text, placed, said.causes)


def _decision(tried: TriedCluster, question: ClusterQuestion) -> _Sentence:
    """Returns the decision. A pod with a node is decided on in a cluster without itself."""
    cluster = None if question.pinned_to else tried.cluster
    for created in question.created if cluster else ():
        tried.put(created)
    try:
        attempt = tried.explainer.attempt(question, cluster)
    except SourceError as problem:
        metadata = question.pod["metadata"]
        subject = f"{metadata['namespace']}/{metadata['name']} "
        text = str(problem).removeprefix(subject)
        causes = standing_causes((*question.standing, text))
        return _Sentence(text, False, question.standing, causes)
    standing = (*question.standing, *attempt.held)
    explained = decided(attempt)
    decision, there = explained.decision, on_node(attempt, explained.outcome)
    chosen = isinstance(decision, Decision) and bool(decision.hosts)
    placed = chosen and not (there and there.rejected)
    said = decision_of(attempt, explained, there, now=not standing, bound=not question.unmade)
    last = binding_failure(question.pod) if placed else ""
    causes = PodCauses(attempt, decision).of_pod((*standing, *filter(None, [last])), there)
    return _Sentence("; it ".join(filter(None, (said, last))), placed, standing, causes)


def decision_of(
    attempt: Attempt, explained: Explanation, there: OnNode | None, *, now: bool, bound: bool
) -> str:
    """Returns the decision, and what becomes of the pod on the node, as a sentence without its
    subject. Unless `now`, something else has to happen first; unless `bound`, the pod would not be
    bound.
    """
    asks = asks_of(attempt.info, attempt.snapshot, explained.decision)
    return "".join(conclusion(explained, asks, there, now=now, bound=bound))


def _is_pending(document: Document, objects: list[Document]) -> bool:
    if document["kind"] != "Pod":
        return False
    spec, status = document.get("spec") or {}, document.get("status") or {}
    return (not spec.get("nodeName") or bool(waiting_claims(document, objects))) and status.get(
        "phase"
    ) not in FINISHED


def show(listed: ListedPods, namespace: str | None, console: Console) -> None:
    """Prints a row for each pod and for each workload without pods, or that there is none, and what
    other namespaces have.
    """
    if not listed.pods:
        where = "" if namespace is None else f" in the namespace {shown(namespace)}"
        console.print(f"no pod is pending{where}")
    else:
        table = Table(title="pending pods", title_justify="left")
        table.add_column("pod", overflow="fold")
        table.add_column("decision", overflow="fold")
        for pod in listed.pods:
            sentence = sentence_of(pod.standing, pod.decision)
            table.add_row(shown(f"{pod.namespace}/{pod.name}"), shown(sentence))
        console.print(table)
    if listed.without_pods:
        _show_workloads(listed.without_pods, console)
    for line in _other_namespaces(listed):
        console.print(line)


def _show_workloads(listed: list[WithoutPods], console: Console) -> None:
    console.print(without_pods(len(listed), sum(not of.placed for of in listed)))
    table = Table(title="workloads without pods", title_justify="left")
    table.add_column("workload", overflow="fold")
    table.add_column("asks for")
    table.add_column("one of its pods", overflow="fold")
    for of in listed:
        table.add_row(shown(of.workload), str(of.asks), shown(of.decision))
    console.print(table)


def _other_namespaces(listed: ListedPods) -> Iterator[str]:
    """Yields the sentence about the namespaces that are not shown, if they have something."""
    counts = (
        (listed.elsewhere.pods, "pending pod"),
        (listed.elsewhere.workloads, "workload"),
    )
    words = [f"{count} {noun}{'s' * (count != 1)}" for count, noun in counts if count]
    if listed.elsewhere.workloads:
        words[-1] += " without pods"
    if words:
        yield f"other namespaces have {' and '.join(words)}: -A shows them"


def without_pods(workloads: int, unplaced: int) -> str:
    """Returns the sentence about workloads without pods, of each of which one pod was tried."""
    have = "1 workload has" if workloads == 1 else f"{workloads} workloads have"
    return f"{have} no pods here: of one pod of each, {unplaced} could not be placed"
