"""Configurations are accepted, refused and completed as by the real kube-scheduler, whose answers
are recorded.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from berth.actors.configuration.file import completed_text
from berth.actors.scheduling.decision.completion import completed
from berth.actors.scheduling.decision.registry import plugin_problems
from berth.actors.scheduling.kube.yaml_documents import YamlError, documents
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.config.feature_gates import parse_gates, with_defaults
from berth.config.load import ConfigError, from_mapping
from tests.golden.configurations import HEAD, Answer, Case, answers, cases

ANSWERED = list(zip(cases(), answers(), strict=True))


def without_nulls(value: Any) -> Any:
    """Returns a value without nulls, which Go writes for lists where berth writes empty ones."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item not in (None, [])}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def completed_by_berth(document: Any, gates: dict[str, bool]) -> Any:
    """Returns the configuration with all its defaults. Raises ConfigError."""
    configuration = from_mapping(document)
    problems = plugin_problems(configuration, IN_TREE, gates)
    if problems:
        raise ConfigError(*problems)
    return completed(configuration, IN_TREE, gates)


@pytest.mark.parametrize(("case", "answer"), ANSWERED, ids=range(len(ANSWERED)))
def test_a_configuration_is_read_as_by_kube_scheduler(case: Case, answer: Answer) -> None:
    gates = with_defaults(parse_gates(case.gates))
    text = (HEAD + case.text).encode()
    if case.looser:
        assert answer.written is None
        assert completed_by_berth(documents(text)[0], gates)
        return
    if answer.written is None or case.stricter:
        with pytest.raises((ConfigError, YamlError)):
            completed_by_berth(documents(text)[0], gates)
        return
    read_by_berth = completed_by_berth(documents(text)[0], gates)
    assert without_nulls(read_by_berth) == without_nulls(answer.written)
    # What berth writes, it reads to the same.
    assert completed_by_berth(read_by_berth, gates) == read_by_berth


def test_the_default_configuration_is_written_as_by_kube_scheduler() -> None:
    (default,) = (answer.written for case, answer in ANSWERED if not case.text and not case.gates)
    assert completed_text(from_mapping(None)) == yaml.safe_dump(default)
