"""The pending pods of a cluster, each with its decision in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.table import Table

from berth.actors.scheduling.kube.core import FINISHED
from berth.config.types import KubeSchedulerConfiguration

from .answering import Explainer, decided
from .asks.asking import asks_of
from .pinned import waiting_claims
from .report import conclusion
from .source import Document, SourceError, question_about
from .subject import Subject
from .words import shown


class PendingPod(msgspec.Struct, frozen=True):
    """A pending pod: why the scheduler does not try it now, if it does not, and the decision."""

    namespace: str
    name: str
    standing: tuple[str, ...]
    decision: str


def pending_pods(
    explainer: Explainer,
    configuration: KubeSchedulerConfiguration,
    objects: list[Document],
    namespace: str | None,
) -> list[PendingPod]:
    """Returns the pods of a namespace (None: of all) that have no node, or have one and keep claims
    waiting by it, in the order of their names. Raises SourceError.
    """
    try:
        cluster = explainer.cluster(objects)
    except msgspec.ValidationError as invalid:
        raise SourceError(str(invalid)) from None
    pending = []
    chosen = [document for document in objects if _is_pending(document, namespace, objects)]
    # Those with a node come last, as they are tried in a cluster without themselves.
    for document in sorted(chosen, key=lambda each: bool(each["spec"].get("nodeName"))):
        metadata = document["metadata"]
        subject = Subject("Pod", metadata["namespace"], metadata["name"])
        question = question_about(subject, objects, configuration)
        try:
            attempt = explainer.attempt(question, None if question.pinned_to else cluster)
            explained = decided(attempt)
            asks = asks_of(attempt.info, attempt.snapshot, explained.decision)
            sentence = "".join(conclusion(explained, asks, now=not question.standing))
        except SourceError as problem:
            sentence = str(problem)
        pending.append(PendingPod(subject.namespace, subject.name, question.standing, sentence))
    return sorted(pending, key=lambda pod: (pod.namespace, pod.name))


def _is_pending(document: Document, namespace: str | None, objects: list[Document]) -> bool:
    if document["kind"] != "Pod":
        return False
    spec, status = document.get("spec") or {}, document.get("status") or {}
    return (
        (not spec.get("nodeName") or bool(waiting_claims(document, objects)))
        and status.get("phase") not in FINISHED
        and namespace in (None, document["metadata"].get("namespace"))
    )


def show(pods: Sequence[PendingPod], namespace: str | None, console: Console) -> None:
    """Prints a row for each pod, or that there is none."""
    if not pods:
        where = "" if namespace is None else f" in the namespace {shown(namespace)}"
        console.print(f"no pod is pending{where}")
        return
    table = Table(title="pending pods", title_justify="left")
    table.add_column("pod", overflow="fold")
    table.add_column("decision", overflow="fold")
    for pod in pods:
        parts = [*pod.standing, f"if it were tried now, it {pod.decision}"]
        decision = "; ".join(parts) if pod.standing else pod.decision
        table.add_row(shown(f"{pod.namespace}/{pod.name}"), shown(decision))
    console.print(table)
