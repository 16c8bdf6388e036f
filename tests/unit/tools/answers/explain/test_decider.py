"""The cluster that plugins see while a pod is explained."""

from __future__ import annotations

from itertools import count

from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.plugins.steps import STEPS_PER_SECOND, StepBudget
from berth.config.load import from_mapping
from berth.tools.answers.explain.cluster_source import ClusterQuestion
from berth.tools.answers.explain.decider import Explainer
from tests.kit.daemon import node, pod


def test_plugins_find_all_pods_and_nodes_in_their_handle() -> None:
    configuration = from_mapping(None)
    explainer = Explainer(configuration)
    others = [node("a"), node("b"), pod("running", nodeName="a"), pod("waiting")]
    explainer.attempt(ClusterQuestion(pod("asked"), others, configuration))
    objects = explainer.handle.objects
    assert {item.metadata.name for item in objects.every(Pod)} == {"running", "waiting", "asked"}
    assert objects.get(Node, "b") is not None
    assert objects.get(Pod, "b", "default") is None
    explainer.attempt(ClusterQuestion(pod("asked"), [], configuration))
    assert [item.metadata.name for item in objects.every(Pod)] == ["asked"]


def test_a_decision_has_all_the_steps_that_long_searches_may_take() -> None:
    configuration = from_mapping(None)
    explainer = Explainer(configuration)
    budget = StepBudget(explainer.handle.now)
    taken = []
    for _ in range(3):
        explainer.attempt(ClusterQuestion(pod("asked"), [node("a")], configuration))
        left = budget.attempt("default", STEPS_PER_SECOND)
        taken.append(next(number for number in count() if left.take(10_000)))
    assert taken[0] > 40
    assert taken == [taken[0]] * 3
