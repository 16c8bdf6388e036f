"""Preferred terms that cannot be parsed, and required terms about the names of nodes."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.decision.outcome import Choice, DecisionFailure
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from tests.kit.documents import node
from tests.kit.profiles import profile_of
from tests.kit.snapshots import snapshot_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def term(*values: str, operator: str = "In", weight: int = 1) -> dict[str, Any]:
    expression = {"key": "zone", "operator": operator, "values": values}
    return {"weight": weight, "preference": {"matchExpressions": [expression]}}


def profile(added: list[dict[str, Any]] | None = None, **plugins: Any) -> Profile:
    args = {"NodeAffinity": {"addedAffinity": {PREFERRED: added or []}}}
    return profile_of(points=plugins, args=args)


class Cluster:
    """One node in each zone. Remembers pods from decision to decision."""

    def __init__(self, profile: Profile, zones: str = "ab") -> None:
        self.profile = profile
        self.scheduler = Scheduler(Random(1))
        nodes = [node(zone, pods=9, labels={"zone": zone}) for zone in zones]
        self.snapshot = snapshot_of(nodes)

    def decide(self, *terms: dict[str, Any], required: dict[str, Any] | None = None) -> str:
        """Returns the chosen node, or the error."""
        affinity: dict[str, Any] = {PREFERRED: terms}
        if required is not None:
            affinity[REQUIRED] = {"nodeSelectorTerms": [required]}
        spec = {"containers": [{}], "affinity": {"nodeAffinity": affinity}}
        metadata = {"namespace": "default", "name": "p", "uid": "p"}
        pod = msgspec.convert({"metadata": metadata, "spec": spec}, Pod)
        outcome = self.scheduler.schedule(self.profile, PodInfo(pod), self.snapshot)
        if isinstance(outcome, DecisionFailure):
            return outcome.status.message
        assert isinstance(outcome, Choice)
        return outcome.node


def test_one_that_cannot_be_parsed_is_an_error_of_every_attempt() -> None:
    cluster = Cluster(profile())
    for _ in range(3):
        assert cluster.decide(term("b", weight=100), term("not a label value!")).startswith(
            'running PreScore plugin "NodeAffinity": [1].matchExpressions[0].values[0][zone]: '
            'Invalid value: "not a label value!": a valid label must be '
        )


def test_several_errors_are_one_message_without_repetition() -> None:
    problem = "matchExpressions[0].values[0]: Invalid value: \"many\": for 'Gt', 'Lt' operators, "
    assert Cluster(profile()).decide(*[term("many", operator="Gt")] * 2) == (
        f'running PreScore plugin "NodeAffinity": [[0].{problem}the value must be an integer, '
        f"[1].{problem}the value must be an integer]"
    )


def test_no_term_is_parsed_for_the_only_node_left() -> None:
    assert Cluster(profile(), zones="a").decide(term("not a label value!")) == "a"


@pytest.mark.parametrize("ignored", [term("!", weight=0), {"weight": 9, "preference": {}}])
def test_a_term_without_weight_or_requirements_is_not_parsed(ignored: dict[str, Any]) -> None:
    assert Cluster(profile()).decide(ignored, term("b")) == "b"


def test_without_pre_score_the_terms_are_parsed_when_a_node_is_scored() -> None:
    off = {"disabled": [{"name": "NodeAffinity"}]}
    message = Cluster(profile(preScore=off)).decide(term("!"))
    assert message.startswith('running Score plugins: plugin "NodeAffinity" failed with: ')
    assert "[0].matchExpressions[0].values[0][zone]: Invalid value" in message


def test_the_terms_of_the_profile_do_not_count_among_the_pods() -> None:
    cluster = Cluster(profile([term("b", weight=100)]))
    assert cluster.decide() == "b"
    assert cluster.decide(term("a", weight=50)) == "b"
    assert cluster.decide(term("!")).startswith(
        'running PreScore plugin "NodeAffinity": [0].matchExpressions[0].values[0][zone]'
    )


@pytest.mark.parametrize(("operator", "node"), [("In", "a"), ("NotIn", "b")])
def test_the_name_of_a_node_is_required_or_excluded(operator: str, node: str) -> None:
    field = {"key": "metadata.name", "operator": operator, "values": ["a"]}
    assert Cluster(profile()).decide(required={"matchFields": [field]}) == node
