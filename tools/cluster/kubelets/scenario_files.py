"""Scenario files: the usage of the pods that a selector selects and that have no annotation about
it.

    seed: 7                                       # of the noise; 0 by default
    usage:
    - selector: {matchLabels: {app: web}}         # of labels; without it, every pod
      namespaces: [shop]                          # without it, every namespace
      uses: memory=1Gi+10Mi/s, cpu=200m           # as in the annotation berth.dev/usage
    - selector: {matchLabels: {app: worker}}
      model: my_models:worker                     # a function of a module

The first entry that concerns a pod counts. A module is looked for beside the file, too. Its
function takes the pod and the seconds since the pod's start, and returns a dictionary of amounts:
{"memory": 2**30, "sidecar/cpu": 0.5}.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from berth.actors.scheduling.kube.labels import EVERYTHING, SelectorError, from_label_selector
from berth.actors.scheduling.kube.meta import LabelSelector
from berth.actors.scheduling.kube.yaml_documents import YamlError, documents
from berth.config.fields import Problems, converted, read_document

from ...kubernetes.kubelet.usage_models import Model, Rule, Scenario, UsageError, parse_usage
from ..named_functions import named_function


class ScenarioError(ValueError):
    """A scenario file that cannot be used; the message names file and field."""


class _Entry(msgspec.Struct, frozen=True):
    selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    uses: str = ""
    model: str = ""


class _File(msgspec.Struct, frozen=True):
    seed: int = 0
    usage: tuple[_Entry, ...] = ()


def read_scenario(file: Path) -> Scenario:
    """Reads a scenario file. Raises ScenarioError."""
    try:
        read = [document for document in documents(file.read_bytes()) if document is not None]
    except YamlError as problem:
        raise ScenarioError(f"{file}: {problem}") from None
    if len(read) != 1:
        raise ScenarioError(f"{file}: expected one document, got {len(read)}")
    problems = Problems()
    plain = read_document(read[0], _File, problems)
    if problems:
        raise ScenarioError(f"{file}: {problems[0]}")
    fields: _File = converted(plain, _File)
    rules = []
    for number, entry in enumerate(fields.usage):
        try:
            rules.append(_rule(entry, file.parent))
        except (ScenarioError, SelectorError, UsageError) as problem:
            part = ".selector" if isinstance(problem, SelectorError) else ""
            part = ".uses" if isinstance(problem, UsageError) else part
            raise ScenarioError(f"{file}: usage[{number}]{part}: {problem}") from None
    return Scenario(tuple(rules), fields.seed)


def _rule(entry: _Entry, folder: Path) -> Rule:
    if bool(entry.uses) == bool(entry.model):
        raise ScenarioError("expected either uses or model")
    usage = parse_usage(entry.uses) if entry.uses else _model(entry.model, folder)
    selector = EVERYTHING if entry.selector is None else from_label_selector(entry.selector)
    return Rule(usage, selector, entry.namespaces)


def _model(text: str, folder: Path) -> Model:
    try:
        return named_function(text, folder)
    except ValueError as problem:
        raise ScenarioError(f"model: {problem}") from problem
