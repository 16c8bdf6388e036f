"""`berth explain`: the decision for one pod in full, or for each pending pod in a line."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import Any

import anyio
import click
import msgspec
import yaml
from rich.console import Console

from berth.actors.cli.plugin_options import plugin_option
from berth.actors.configuration.file import file_or_default
from berth.actors.telemetry.logs import configure_logs
from berth.config.types import KubeSchedulerConfiguration

from ...answers.explain.asks.node_asks import asks_of
from ...answers.explain.changes.proof_search import (
    ChangeSearch,
    changes_to_show,
    is_pending,
    nodes_with_label,
    search,
    smallest_changes,
)
from ...answers.explain.cluster_source import (
    NO_ANSWER,
    ClusterQuestion,
    Document,
    Live,
    connection_to,
    from_cluster,
    from_manifests,
    from_scenario,
    kinds_besides,
    question_about,
)
from ...answers.explain.decider import Explainer, answers, decided
from ...answers.explain.decision import Decision, Explanation, Failure
from ...answers.explain.decision_report import every_node, show
from ...answers.explain.device_words import supply
from ...answers.explain.explained_pod import ExplainedPods, explained_pod
from ...answers.explain.kubelet_refusals import OS, refusals, system_of
from ...answers.explain.last_attempt import binding_failure
from ...answers.explain.on_node import OnNode, on_node
from ...answers.explain.pending_pods import pending
from ...answers.explain.pending_pods import show as show_pending
from ...answers.explain.pod_claims import TEMPLATES
from ...answers.explain.pod_requests import PodRequests, pod_requests, show_requests
from ...answers.explain.slow_answer import progress_reports
from ...answers.explain.subject import DEFAULT_NAMESPACE, Subject
from ...answers.explain.tried_cluster import AskedPod, asked
from ...answers.explain.volume_words import demands
from ...answers.explain.words import listed, shown
from ...answers.manifests.manifests import Reading
from ...answers.terminal.feature_gates import feature_gates_option, gates_from
from ...answers.terminal.options import config_option, exit_with, output_option, top_option
from ...answers.terminal.sheet import Sheet
from ...kubernetes.api.types.resources import Kind
from .cluster_options import cluster_options


@click.command()
@click.argument("name", metavar="[[NAMESPACE/|KIND/]NAME]", required=False)
@cluster_options
@click.option("--pod", metavar="[NAMESPACE/]NAME", help="The same as the argument.")
@click.option("-n", "--namespace", default="", metavar="NAME", help="The namespace of the pod.")
@click.option(
    "-A", "--all-namespaces", is_flag=True, help="Without a NAME: pending pods everywhere."
)
@config_option
@plugin_option
@feature_gates_option
@click.option(
    "--scenario",
    "scenarios",
    metavar="FILE",
    help="Lines of {name, config, objects, pod}, also .gz; - reads one from standard input.",
)
@click.option(
    "--requests",
    "only_requests",
    is_flag=True,
    help="Show only what the pod asks of a node, part by part, and by which rules.",
)
@top_option("nodes with their scores")
@output_option("yaml", "html", words="html: one file to attach to a ticket.")
def explain(
    name: str | None,
    paths: tuple[Path, ...],
    reading: Reading,
    live: Live,
    pod: str | None,
    namespace: str,
    all_namespaces: bool,
    file: str | None,
    feature_gates: tuple[str, ...],
    scenarios: str | None,
    only_requests: bool,
    top: int,
    output: str,
) -> None:
    """Explain where a pod would be placed, and why.

    Shows every node's verdict, every plugin's score, what the pod's volumes ask of the nodes, which
    devices its claims would get on each node, the message that a user would read, and for a pending
    pod the smallest changes after which it fits. The pod is treated as if it were pending now. The
    extenders of the configuration are called, but nothing is written. With -o json or yaml, the
    answer also has the pods that preemption would evict and a code for each reason, but neither the
    volumes nor the reasons why devices are short.

    KIND/NAME is the next pod of a workload, such as deployment/web. Without a NAME, each pending
    pod of the namespace has a line.

    \b
    berth explain web-1 -n shop
    berth explain -f cluster.yaml deployment/web
    helm template chart | berth explain --kubeconfig ~/.kube/config -f - deployment/web
    berth explain -A
    berth explain web-1 -n shop -o html > web-1.html
    berth explain web-1 -n shop --requests
    berth explain --scenario decisions.jsonl.gz
    berth explain -f cluster.yaml web-1 --plugin price.py:Price
    """
    configure_logs(quiet=True)
    if name and pod:
        raise click.UsageError("expected the pod once: as an argument or with --pod")
    if only_requests and not (name or pod):
        raise click.UsageError("--requests: expected the NAME of a pod or of a workload")
    try:
        gates = gates_from(feature_gates)
        if scenarios is not None and scenarios != "-":
            _explain_all(Path(scenarios), gates)
            return
        if scenarios == "-":
            question = from_scenario(sys.stdin.readline(), gates)[1]
            _explain_one(Explainer(question.configuration, gates), question, top, output)
            return
        configuration = file_or_default(file, gates)
        explainer = Explainer(configuration, gates)
        subject = Subject.parse(name or pod or "", namespace)
        others = kinds_besides(subject, files=bool(paths))
        objects = _objects(paths, reading, live, explainer, others, needs_nodes=not only_requests)
        templates = TEMPLATES in others
        if subject.name:
            subject = subject.settled(objects if paths else ())
            question = question_about(subject, objects, configuration, templates=templates)
            if only_requests:
                _show_requests(pod_requests(question.pod, objects, gates), output)
            else:
                with progress_reports():
                    _explain_one(explainer, question, top, output)
        else:
            within = None if all_namespaces else namespace or DEFAULT_NAMESPACE
            with progress_reports():
                _explain_pending(explainer, configuration, objects, within, output, templates)
        exit_with(reading)
    except NO_ANSWER as problem:
        raise click.ClickException(str(problem)) from None


def _explain_all(scenarios: Path, gates: Mapping[str, bool]) -> None:
    try:
        for line in answers(scenarios, gates):
            click.echo(line)  # Its failure is an OutputError.
    except OSError as problem:
        raise click.ClickException(f"{scenarios}: cannot be read: {problem.strerror}") from None


def _objects(
    paths: tuple[Path, ...],
    reading: Reading,
    live: Live,
    explainer: Explainer,
    others: list[Kind],
    *,
    needs_nodes: bool = True,
) -> list[Document]:
    """Returns the objects of the live cluster, if one is named or there are no files, overridden by
    those of the files.
    """
    cluster: list[Document] = []
    if live.is_named or not paths:
        connection = connection_to(live)
        explainer.reads_from(connection)
        cluster = anyio.run(from_cluster, connection, explainer.kinds, others)
    if not paths:
        return cluster
    return from_manifests(paths, explainer.kinds, cluster, reading, needs_nodes=needs_nodes)


def _show_requests(asked: PodRequests, output: str) -> None:
    if output in ("table", "html"):
        with _console(output, asked.pod) as console:
            show_requests(asked, console)
    else:
        _print(msgspec.to_builtins(asked), output)


def _explain_one(explainer: Explainer, question: ClusterQuestion, top: int, output: str) -> None:
    pod = asked(explainer, question)
    attempt = pod.attempt
    standing = (*question.standing, *attempt.held)
    explained = decided(attempt)
    decision = explained.decision
    result = None
    if is_pending(pod, decision):
        result = search(pod, explained.outcome)
    there = on_node(attempt, explained.outcome)
    warnings = _warnings(pod, explained, there)
    if output in ("json", "yaml"):
        answer = explained_pod(attempt, decision, standing, there, warnings, result)
        _print(msgspec.to_builtins(answer), output)
        return
    plugins = {plugin.name for plugin in attempt.profile.plugins}
    volumes = demands(attempt.info, attempt.snapshot, plugins)
    devices = supply(attempt.info, attempt.snapshot, attempt.profile.filters)
    asks = asks_of(attempt.info, attempt.snapshot, explained.decision)
    name, outcome = attempt.info.key, explained.outcome
    helping = smallest_changes(pod, outcome, [ask.nodes for ask in asks])
    with _console(output, name) as console:
        show(
            explained,
            warnings,
            asks,
            helping,
            there,
            volumes,
            devices,
            name,
            standing,
            top,
            console,
            bound=not question.unmade,
        )
        if result is not None and result.says_something:
            _show_changes(result, console)
        if isinstance(console, Sheet) and isinstance(decision, Decision):
            console.fold("every node", every_node(decision))


def _warnings(pod: AskedPod, explained: Explanation, there: OnNode | None) -> list[str]:
    """Returns the problems that the pod would have on its possible nodes, and what would help."""
    decision = explained.decision
    hosts = () if isinstance(decision, Failure) else decision.hosts
    if there is not None and there.rejected:
        return []
    last = binding_failure(pod.question.pod) if hosts else ""
    if last:
        return [last]
    warnings = refusals(pod.question.pod, hosts, pod.attempt.snapshot)
    label = OS, system_of(pod.question.pod)
    if warnings:
        nodes = nodes_with_label(pod, explained.outcome, label)
        if nodes:
            warnings[-1] += f". With the nodeSelector {OS}: {label[1]} it fits on {listed(nodes)}"
    return warnings


def _show_changes(result: ChangeSearch, console: Console) -> None:
    problem = result.problem or "none, nor two together, of the kinds that are tried"
    if not result.suggestions:
        console.print(f"what would change it: {problem}")
        return
    console.print("what would change it")
    for change in changes_to_show(result.suggestions):
        text = f"- {change.sentence}"
        lines = wrap(text, console.width, subsequent_indent="  ", break_on_hyphens=False)
        console.print(shown(*lines), soft_wrap=True)
    if result.problem:
        console.print(result.problem)


def _explain_pending(
    explainer: Explainer,
    configuration: KubeSchedulerConfiguration,
    objects: list[Document],
    namespace: str | None,
    output: str,
    templates: bool,
) -> None:
    listed = pending(explainer, configuration, objects, namespace, templates=templates)
    if output in ("table", "html"):
        with _console(output, "pending pods") as console:
            show_pending(listed, namespace, console)
    else:
        answer = ExplainedPods(listed.pods, listed.without_pods)
        _print(msgspec.to_builtins(answer), output)


@contextmanager
def _console(output: str, title: str) -> Iterator[Console]:
    """Yields the console for an answer. HTML is written at the end of the block."""
    if output == "table":
        yield Console()
        return
    sheet = Sheet(title)
    yield sheet
    click.echo(sheet.document(), nl=False)


def _print(document: dict[str, Any], output: str) -> None:
    if output == "json":
        click.echo(msgspec.json.encode(document))
    else:
        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)
