"""Stories that seeds of `berth simulate` have found, made as small as they can be: each broke a
property once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from berth.testing import Fault, claim, device_claim, job, nodes, pod, priority_class
from berth.tools.testing.simulation.chance import DEVICES, device_class, slice_of
from berth.tools.testing.simulation.scenario import Scenario, ScenarioStep, read_scenario
from berth.tools.testing.simulation.short_stories import LOCAL, local_class, local_volume
from berth.tools.testing.simulation.simulation import play

Document = dict[str, Any]
SEEDS = Path(__file__).parent / "seeds"


def created(at: float, *objects: Document) -> tuple[ScenarioStep, ...]:
    return tuple(ScenarioStep(at, "create", body=each) for each in objects)


def test_pods_are_listed_before_their_claims() -> None:
    """A scheduler starts while the server is away. Its first list of pods comes before that of
    claims, so that a gate that looks claims up fails, and no event wakes the pod later.
    """
    claim = device_claim("device", DEVICES)
    steps = (
        *created(0, device_class(), *nodes(1), slice_of("node-1", 1)),
        ScenarioStep(2.8, "restart"),
        *created(3.1, claim, pod("a", devices=[claim])),
    )
    for seed in range(3):
        restart = Fault("server-restart-cold", begin=3.4)
        story = play(Scenario(seed=seed, seconds=4.1, faults=(restart,), steps=steps))
        assert (story.violations, story.bound) == ((), 1)


def test_a_finished_pod_is_pending_in_an_old_list() -> None:
    """The scheduler lists pods anew from a server that is behind, and places a pod that has long
    been bound and has finished. Its binding is refused; that the pod has the node, as the server
    says then, does not mean that its room is taken: no event would free it.
    """
    pods, bindings = ("/pods",), ("/binding",)
    clients = ("kube-scheduler",)
    faults = (
        Fault("refuse", paths=bindings, end=3),
        Fault("watch-expired", begin=9, end=10, paths=pods, clients=clients),
        Fault("older", begin=9, end=12, seconds=8.5, paths=pods, clients=clients),
        Fault("refuse", begin=9, paths=bindings),
    )
    steps = (*created(0, *nodes(1)), *created(1, job("batch")), *created(9.5, pod("late")))
    story = play(Scenario(seconds=20, faults=faults, steps=steps))
    assert (story.violations, story.bound) == ((), 2)


def test_a_plugin_fails_in_a_dry_run_of_preemption() -> None:
    """The pod is tried again after its backoff: no event would tell that the plugin is well."""
    steps = (
        *created(0, priority_class("high", 10), *nodes(1, cpu=1), pod("low", cpu=1)),
        *created(10, pod("high", cpu=1, priorityClassName="high")),
    )
    fault = Fault("plugin-raise", begin=9, end=11, points=("PreFilter",), chance=0.5)
    for seed in range(8, 12):  # it fails in the dry run of 10
        story = play(Scenario(seed=seed, seconds=12, faults=(fault,), steps=steps))
        assert (story.violations, story.bound) == ((), 2)


def test_an_old_list_does_not_hide_who_has_the_room() -> None:
    """A watch of pods ends, and the list that follows is from before the pod that has the room, as
    one of several servers is behind; the next list is not. The events in between are held up.
    """
    about: dict[str, Any] = {"paths": ("/pods",), "clients": ("kube-scheduler",)}
    faults = (
        Fault("watch-expired", begin=14, end=14.5, **about),
        Fault("older", begin=14, end=15.5, seconds=8, **about),
        Fault("watch-silent", begin=14.5, end=15.5, **about),
    )
    patient = priority_class("patient", 10, preemptionPolicy="Never")
    waits = pod("waits", cpu=1, priorityClassName="patient", nodeSelector={"disk": "ssd"})
    label = {"metadata": {"labels": {"disk": "ssd"}}}
    steps = (
        *created(0, patient, *nodes(1, cpu=1)),
        *created(5, waits),
        *created(8, pod("first", cpu=1)),
        ScenarioStep(10, "patch", kind="Node", name="node-1", body=label),
        *created(14.2, pod("late", cpu=1)),
    )
    story = play(Scenario(seconds=20, faults=faults, steps=steps))
    assert (story.violations, story.bound) == ((), 1)


def test_pods_wait_for_a_plugin_that_is_tried_again_and_not_asked() -> None:
    """A plugin is switched off as it was slow in PostFilter, which gates other pods that need no
    PostFilter: it is enough for them that it is tried again, as nobody has it called there.
    """
    slow = Fault("plugin-sleep", end=12, points=("PostFilter",), chance=1.0, seconds=3.0)
    nowhere = [pod(f"nowhere-{number}", cpu=1, nodeSelector={"a": "b"}) for number in range(4)]
    steps = (*created(0, *nodes(1)), *created(1, *nowhere), *created(1.5, pod("late", cpu=1)))
    story = play(Scenario(seconds=16, faults=(slow,), steps=steps))
    assert (story.violations, story.bound) == ((), 1)


def test_pods_that_a_plugin_gates_while_it_is_off_are_tried_though_nothing_happens() -> None:
    """Its rest ends, and no event tells of that: the queue has to look by itself."""
    slow = Fault("plugin-sleep", end=12, points=("Permit",), chance=1.0, seconds=3.0)
    steps = (*created(0, *nodes(1)), *created(1, *(pod(f"p{number}") for number in range(6))))
    story = play(Scenario(seconds=14, faults=(slow,), steps=steps))
    assert (story.violations, story.bound) == ((), 6)


def test_a_binding_without_an_answer_keeps_its_room_until_there_is_one() -> None:
    """A pod is bound, but the answer is lost, the next one too, and the watch is late."""
    clients = ("kube-scheduler",)
    faults = (
        Fault("watch-late", begin=0.5, end=9, seconds=30, paths=("/pods",), clients=clients),
        Fault("unanswered", end=5, paths=("/binding",)),
        Fault("truncated", end=6, methods=("GET",), paths=("/a", "/b"), clients=clients),
    )
    steps = (*created(0, pod("a", cpu=1), pod("b", cpu=1)), *created(1, *nodes(1, cpu=1)))
    story = play(Scenario(seconds=60, faults=faults, steps=steps))
    assert (story.violations, story.bound, story.met["truncated"]) == ((), 1, 2)


def test_what_made_a_preemption_vain_ends() -> None:
    """Not the filter that rejected the pod, but another one refused the node without its pods: the
    end of that reason has to wake the pod.
    """
    disk = claim("disk", storage_class=LOCAL)
    volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]
    steps = (
        *created(0, priority_class("high", 9), local_class(), *nodes(1, cpu=1), pod("low", cpu=1)),
        *created(5, disk, pod("high", cpu=1, priorityClassName="high", volumes=volumes)),
        *created(9, local_volume("node-1", "ReadWriteOnce")),
    )
    story = play(Scenario(seconds=20, steps=steps))
    assert (story.violations, story.bound) == ((), 2)


@pytest.mark.full("long")
@pytest.mark.parametrize("path", sorted(SEEDS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_files_of_seeds(path: Path) -> None:
    """Stories that depend on the order of many events, as the simulation wrote them.

    seed-51073: a pod is tried while its victim ends, and fails as another one took its volume. It
    keeps its nomination, since the victim's end wakes only pods whose plugins wait for it, as in
    kube-scheduler: "nomination kept" leaves such a pod out.

    seed-101450: one of two schedulers switches a plugin off that was slow in PreBind. The pods that
    it gates meanwhile wait for nothing else: they have to be asked about once it is tried again.

    seed-302486: a silent watch tells at once that a pod came, was placed by another scheduler, and
    finished, while it is assumed. Its binding is refused, and no later event would free its room.

    seed-361737: a list is on its way while a job creates pods, which are not in it. Its controller
    did not see them again, and their finalizer was never removed.

    seed-371442: a preemptor is bound while the watch is silent. The answer is lost, and so is that
    to the question whether it is bound.

    seed-321643: a pod may preempt once the claim that it shares with another one is bound, which
    concerned the dry runs of its preemption alone.
    """
    assert play(read_scenario(path)).violations == ()
