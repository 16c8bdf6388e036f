"""What VolumeBinding reads anew is read in parts before PreFilter, and once only."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from berth.actors.scheduling.decision.outcome import DecisionFailure, Outcome
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.framework.questions import PAUSE
from berth.actors.scheduling.model import node_selection
from berth.actors.scheduling.model.snapshot import NodeView
from berth.actors.scheduling.model.vectors import Bools
from berth.actors.wiring.profiles import profiles_of
from berth.config.types import KubeSchedulerConfiguration
from berth.plugin import PodInfo, Snapshot
from tests.kit.documents import Document
from tests.kit.handle import NoApi
from tests.kit.storage import as_pod, claim, cluster, node, of_claim, pod, thing, volume

HOST = "kubernetes.io/hostname"
NODES = [node(f"n{number}", **{HOST: f"n{number}"}) for number in range(20)]
MANY = 2_000


def odd_volume(number: int, terms: int = 4) -> Document:
    """A volume whose node affinity is like no other's; its last term allows one node of forty."""
    hosts = [[f"m{number}-{each}" for each in range(50)] for _ in range(terms)]
    hosts.append([f"n{number % 40}", f"x{number}"])
    required = [
        {"matchExpressions": [{"key": HOST, "operator": "In", "values": values}]}
        for values in hosts
    ]
    document = volume(
        f"v{number}",
        capacity={"storage": "1Gi"},
        accessModes=["ReadWriteOnce"],
        storageClassName="s",
        nodeAffinity={"required": {"nodeSelectorTerms": required}},
    )
    return document | {"status": {"phase": "Available"}}


def odd_room(number: int) -> Document:
    """Room of a topology that is like no other."""
    expressions = [
        {"key": f"k{key}", "operator": "NotIn", "values": [f"v{number}-{each}" for each in "abcd"]}
        for key in range(20)
    ]
    topology = {"matchExpressions": expressions}
    return thing(
        "CSIStorageCapacity",
        f"r{number}",
        storageClassName="s",
        capacity="1Mi",
        nodeTopology=topology,
    )


def storage_class(provisioner: str) -> list[Document]:
    late = thing(
        "StorageClass", "s", provisioner=provisioner, volumeBindingMode="WaitForFirstConsumer"
    )
    return [late, thing("CSIDriver", "driver", spec={"storageCapacity": True})]


def wanting(number: int) -> Document:
    """A claim of a size of its own, up to 1 GiB."""
    size = {"requests": {"storage": f"{1024 - number}Mi"}}
    return claim(f"c{number}", resources=size, accessModes=["ReadWriteOnce"], storageClassName="s")


VOLUMES = [*storage_class("kubernetes.io/no-provisioner"), *map(odd_volume, range(MANY))]
ROOM = [*storage_class("driver"), *map(odd_room, range(MANY // 2))]


class Attempts:
    """Attempts at pods with claims, beside these objects."""

    def __init__(self, objects: list[Document], claims: int = 1) -> None:
        self.handle = NoApi()
        (self.profile,) = profiles_of(KubeSchedulerConfiguration(), self.handle).values()
        self.scheduler = Scheduler(Random(1))
        self.claims = [f"c{number}" for number in range(claims)]
        self.snapshot: Snapshot = cluster(*NODES, *objects, *map(wanting, range(claims)))

    def __call__(self) -> tuple[Outcome, int]:
        """Returns the outcome and the number of pauses."""
        info, pauses = PodInfo(as_pod(pod("p", *map(of_claim, self.claims)))), 0
        steps = self.scheduler.steps(self.profile, info, self.snapshot, extended=False)
        while True:
            try:
                assert next(steps) is PAUSE
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome, pauses
            pauses += 1


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the views for which a selector was asked."""
    sizes: list[int] = []
    plain: Callable[..., Bools] = node_selection.NodeTerms.match

    def match(terms: node_selection.NodeTerms, nodes: NodeView) -> Bools:
        sizes.append(nodes.size)
        return plain(terms, nodes)

    monkeypatch.setattr(node_selection.NodeTerms, "match", match)
    return sizes


def is_late(outcome: Outcome) -> bool:
    late = 'running PreFilter plugin "VolumeBinding": timed out looking for volumes'
    return isinstance(outcome, DecisionFailure) and outcome.status.message == late


@pytest.mark.parametrize("objects", [VOLUMES, ROOM], ids=["volumes", "room"])
def test_many_odd_objects_are_read_with_pauses_and_once(
    objects: list[Document], asked: list[int]
) -> None:
    attempt = Attempts(objects)
    outcome, pauses = attempt()
    assert pauses > 10
    assert not is_late(outcome)
    first = len(asked)
    outcome, pauses = attempt()
    assert pauses == 0
    assert len(asked) - first < 10
    assert not is_late(outcome)


def test_an_attempt_without_steps_ends_and_the_next_one_goes_on() -> None:
    """Each claim of the pod has all volumes compared with its request."""
    few = [odd_volume(number, terms=0) for number in range(MANY)]
    attempt = Attempts([*storage_class("kubernetes.io/no-provisioner"), *few], claims=24)
    outcome, _ = attempt()
    assert is_late(outcome)
    assert is_late(attempt()[0])
    for _ in range(10):
        attempt.handle.seconds += 1
        outcome, _ = attempt()
        if not is_late(outcome):
            break
    assert not is_late(outcome)
    assert attempt()[1] == 0
