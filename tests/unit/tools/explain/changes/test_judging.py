"""Changes after which a pending pod fits: each is applied to the pod and decided from scratch."""

from __future__ import annotations

from typing import Any

import pytest

from berth.config.load import from_mapping
from berth.tools.explain.answering import Explainer, decided
from berth.tools.explain.changes.judging import patched, suggestions
from berth.tools.explain.decision import Failure
from berth.tools.explain.source import Question
from tests.kit.daemon import node, pod

TAINT = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}


def tainted() -> dict[str, Any]:
    document = node("n1")
    document.setdefault("spec", {})["taints"] = [TAINT]
    return document


@pytest.mark.parametrize(
    ("nodes", "spec", "sentence"),
    [
        (
            [node("n1")],
            {"nodeSelector": {"example.com/disk": "sdd"}},
            "Drop example.com/disk=sdd from the node selector: it fits on n1.",
        ),
        ([tainted()], {}, "Tolerate the taint dedicated=batch:NoSchedule: it fits on n1."),
        ([tainted()], {"nodeSelector": {"disk": "sdd"}}, None),
    ],
)
def test_a_suggestion_places_the_pod(
    nodes: list[dict[str, Any]], spec: dict[str, Any], sentence: str | None
) -> None:
    configuration = from_mapping(None)
    explainer = Explainer(configuration)
    question = Question(pod("web", **spec), nodes, configuration)
    result = suggestions(explainer, question, explainer.attempt(question))
    assert [suggestion.sentence for suggestion in result] == ([sentence] if sentence else [])
    for suggestion in result:
        changed = Question(patched(question.pod, suggestion.patch), nodes, configuration)
        decision = decided(Explainer(configuration).attempt(changed)).decision
        assert not isinstance(decision, Failure)
        assert tuple(decision.hosts or ()) == suggestion.nodes
