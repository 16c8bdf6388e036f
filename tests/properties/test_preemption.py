"""Preemption's dry run against a slow model, and suppositions against the state that they leave
behind.

The model makes no suppositions: for each question it builds a new cluster without the pods in
question. It leaves out two oddities that a rebuilt cluster cannot have: spread counts of
terminating pods that are supposed to be removed, and ports that two pods of a node share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.decision.failed_attempt import Attempt
from berth.actors.scheduling.decision.plain import Plain
from berth.actors.scheduling.framework.post_filter import FailedAttempt
from berth.actors.scheduling.framework.questions import Victims, run_without_extenders
from berth.actors.scheduling.framework.status import Code, Status
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.policy import PodDisruptionBudget
from berth.actors.scheduling.model import pod_template
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.scheduling.model.what_if import Supposition, supposing
from berth.actors.scheduling.plugins.default_preemption.budgets import Budgets
from berth.actors.scheduling.plugins.default_preemption.dry_runs import DryRuns
from berth.actors.scheduling.plugins.default_preemption.lowest import LowestPriorities
from berth.actors.scheduling.plugins.default_preemption.victims import (
    NO_VICTIMS,
    Candidate,
    cheapest,
    dry_run,
)
from berth.actors.scheduling.plugins.steps import NO_LIMIT
from tests.kit import documents
from tests.kit.documents import Document, thing
from tests.kit.examples import examples
from tests.kit.profiles import profile_of
from tests.kit.snapshots import snapshot_of

PROFILE = profile_of()
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}
NODES = ("n0", "n1", "n2", "n3")
FAR = "requiredDuringSchedulingIgnoredDuringExecution"


def node(name: str, cpu: int) -> Document:
    labels = {HOST: name, ZONE: "a" if name in NODES[:2] else "b"}
    return documents.node(name, str(cpu), pods=5, labels=labels)


def needs(kind: str) -> Document:
    """Requirements of a pod about its neighbours."""
    match kind:
        case "far from web":
            return {
                "affinity": {
                    "podAntiAffinity": {FAR: [{"topologyKey": HOST, "labelSelector": WEB}]}
                }
            }
        case "zone without web":
            return {
                "affinity": {
                    "podAntiAffinity": {FAR: [{"topologyKey": ZONE, "labelSelector": WEB}]}
                }
            }
        case "spread":
            common = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
            return {"topologySpreadConstraints": [{**common, "topologyKey": ZONE}]}
        case _:
            return {}


def pod(
    name: str,
    priority: int,
    cpu: int,
    *,
    app: str = "other",
    kind: str = "",
    on: str = "",
    nominated: str = "",
    started: int | None = None,
    port: bool = False,
    terminating: bool = False,
) -> Document:
    """Returns a pod; `cpu` is in tenths of a core, `started` in minutes."""
    container = documents.container("c", f"{cpu}00m")
    if port:
        container["ports"] = [{"hostPort": 80, "containerPort": 80}]
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if terminating else {}
    status: Document = {"nominatedNodeName": nominated}
    if started is not None:
        status["startTime"] = f"2026-01-01T00:{started:02}:00Z"
    spec = {"containers": [container], "labels": {"app": app}, "nodeName": on, **needs(kind)}
    return documents.pod(name, priority=priority, metadata=metadata, status=status, **spec)


@st.composite
def clusters(draw: st.DrawFn) -> list[Document]:
    objects = [node(name, draw(st.sampled_from([2, 3]))) for name in draw(st.permutations(NODES))]
    claimed = set()
    for i in range(draw(st.integers(0, 12))):
        on, terminating = (
            draw(st.sampled_from(NODES)),
            draw(st.sampled_from([False, False, False, True])),
        )
        port = on not in claimed and draw(st.booleans())
        claimed |= {on} if port else set()
        objects.append(
            pod(
                f"p{i}",
                draw(st.sampled_from([-5, 0, 0, 5, 10, 20])),
                draw(st.sampled_from([2, 5, 10])),
                app="other" if terminating else draw(st.sampled_from(["web", "db"])),
                kind=draw(st.sampled_from(["", "", "", "far from web", "zone without web"])),
                on=on,
                started=draw(st.none() | st.integers(0, 5)),
                port=port,
                terminating=terminating,
            )
        )
    for i in range(draw(st.integers(0, 2))):
        nominated, port = draw(st.sampled_from(NODES)), draw(st.booleans())
        priority = draw(st.sampled_from([5, 10, 20]))
        objects.append(pod(f"q{i}", priority, 5, app="web", nominated=nominated, port=port))
    for i in range(draw(st.integers(0, 2))):
        exempt = {
            f"p{i}": "2026-01-01T00:00:00Z" for i in draw(st.lists(st.integers(0, 12), max_size=2))
        }
        status = {"disruptionsAllowed": draw(st.integers(0, 2)), "disruptedPods": exempt}
        selector = {"matchLabels": {"app": draw(st.sampled_from(["web", "db", "other"]))}}
        objects.append(
            thing("PodDisruptionBudget", f"b{i}", spec={"selector": selector}, status=status)
        )
    return objects


PREEMPTORS = st.builds(
    pod,
    st.just("preemptor"),
    st.just(10),
    st.sampled_from([3, 10, 20]),
    app=st.sampled_from(["web", "db"]),
    kind=st.sampled_from(["", "", "far from web", "zone without web", "spread"]),
    port=st.booleans(),
)


def snapshot(objects: list[Document]) -> Snapshot:
    return snapshot_of(objects)


def read(document: Document) -> PodInfo:
    return PodInfo(msgspec.convert(document, Pod, strict=False))


def attempt_at(preemptor: Document, objects: list[Document]) -> FailedAttempt:
    info, seen = read(preemptor), snapshot(objects)
    return Attempt(PROFILE, info, seen, Plain(PROFILE, info, seen).evaluation(), Random(0))


# ----------------------------------------------------------------------------------- the slow model


def fits(preemptor: Document, objects: list[Document], on: str) -> bool:
    info, seen = read(preemptor), snapshot(objects)
    evaluation = Plain(PROFILE, info, seen).evaluation()
    assert evaluation.diagnosis is not None
    return bool(evaluation.diagnosis.feasible()[seen.columns.row_of[on]])


def slowly(preemptor: Document, objects: list[Document], on: str) -> tuple[list[str], int] | None:
    """Returns the victims and the number of violated budgets; None if the pod does not fit even
    without all pods of lower priority.
    """

    def rank(victim: Document) -> tuple[int, str]:
        return (-victim["spec"]["priority"], victim["status"].get("startTime", "now"))

    here = [o for o in objects if o["kind"] == "Pod" and o["spec"]["nodeName"] == on]
    lower = sorted(
        (o for o in here if o["spec"]["priority"] < preemptor["spec"]["priority"]), key=rank
    )
    limits = [o for o in objects if o["kind"] == "PodDisruptionBudget"]
    left = {b["metadata"]["name"]: b["status"]["disruptionsAllowed"] for b in limits}
    protected = []
    for victim in lower:
        for limit in limits:
            if victim["metadata"]["name"] in limit["status"]["disruptedPods"]:
                continue
            if (
                limit["spec"]["selector"]["matchLabels"]["app"]
                == victim["metadata"]["labels"]["app"]
            ):
                left[limit["metadata"]["name"]] -= 1
                if left[limit["metadata"]["name"]] < 0 and victim not in protected:
                    protected.append(victim)
    rest = [o for o in objects if o not in lower]
    if not lower or not fits(preemptor, rest, on):
        return None
    victims = []
    for candidate in protected + [victim for victim in lower if victim not in protected]:
        if fits(preemptor, [*rest, candidate], on):
            rest.append(candidate)
        else:
            victims.append(candidate)
    victims.sort(key=rank)
    return [v["metadata"]["name"] for v in victims], sum(victim in protected for victim in victims)


# ----------------------------------------------------------------------------------------- dry runs


def told(outcome: Candidate | Status) -> object:
    if isinstance(outcome, Status):
        return outcome
    return (
        outcome.node,
        [victim.pod.metadata.name for victim in outcome.victims.pods],
        outcome.victims.pdb_violations,
    )


def one_by_one(attempt: FailedAttempt, limits: Budgets) -> dict[int, Candidate | Status]:
    """Returns the result for every node that may help, by its position in the node tree's order."""
    order = attempt.snapshot.columns.order
    return {
        at: run_without_extenders(dry_run(attempt, [int(order[at])], limits, NO_LIMIT))[0]
        for at in np.flatnonzero(attempt.helped).tolist()
    }


@examples()
@given(preemptor=PREEMPTORS, objects=clusters())
def test_all_nodes_at_once_one_by_one_and_the_model_agree(
    preemptor: Document, objects: list[Document]
) -> None:
    attempt = attempt_at(preemptor, objects)
    limits = Budgets(attempt.snapshot.objects.every(PodDisruptionBudget))
    before, version = state_of(attempt.snapshot), attempt.snapshot.columns.changes.version
    dry_runs = DryRuns()
    alone = one_by_one(attempt, limits)
    for _ in range(2):  # The second answer is remembered.
        result = run_without_extenders(
            dry_runs.search(attempt, 0, len(attempt.snapshot), limits, LowestPriorities(), NO_LIMIT)
        )
        candidates = {at: told(dry_runs.candidate(at)) for at in result.candidates.tolist()}
        assert candidates == {
            at: told(outcome) for at, outcome in alone.items() if isinstance(outcome, Candidate)
        }
        refused = Counter(outcome for outcome in alone.values() if isinstance(outcome, Status))
        assert result.refused == (Counter() if candidates else refused)
    assert state_of(attempt.snapshot) == before
    assert attempt.snapshot.columns.changes.version == version
    for at, outcome in alone.items():
        name = attempt.snapshot.columns.names[attempt.snapshot.columns.order[at]]
        expected = slowly(preemptor, objects, name)
        if isinstance(outcome, Status):
            # It is an error if the pod fits without victims, as when only a supposed removal
            # made it fit.
            assert expected is None or not expected[0]
            lower = any(i.priority < 10 for i in infos(attempt.snapshot)[name].values())
            assert (outcome == NO_VICTIMS) == (not lower)
        else:
            assert expected is not None
            assert told(outcome) == (name, *expected)


@examples()
@given(preemptor=PREEMPTORS, objects=clusters())
def test_only_the_values_that_the_pod_has_itself_matter(
    preemptor: Document, objects: list[Document]
) -> None:
    attempt = attempt_at(preemptor, objects)
    limits = Budgets(attempt.snapshot.objects.every(PodDisruptionBudget))
    before = state_of(attempt.snapshot)
    assert attempt.seen_by is not None
    with patch.object(pod_template, "SMALL", -1):
        alone = {at: told(outcome) for at, outcome in one_by_one(attempt, limits).items()}
    assert state_of(attempt.snapshot) == before
    with patch.object(Attempt, "seen_by", None):
        assert alone == {at: told(outcome) for at, outcome in one_by_one(attempt, limits).items()}


@examples()
@given(
    preemptor=PREEMPTORS,
    objects=clusters(),
    start=st.integers(0, 3),
    enough=st.integers(0, 4),
    sound_only=st.booleans(),
)
def test_a_search_stops_at_the_same_node_as_a_walk(
    preemptor: Document, objects: list[Document], start: int, enough: int, sound_only: bool
) -> None:
    attempt = attempt_at(preemptor, objects)
    limits = Budgets(attempt.snapshot.objects.every(PodDisruptionBudget))
    outcomes = one_by_one(attempt, limits)
    met: list[int] = []
    failed: list[str] = []
    for at in sorted(outcomes, key=lambda at: (at < start, at)):
        outcome = outcomes[at]
        if isinstance(outcome, Status):
            failed += [outcome.message] if outcome.code is Code.ERROR else []
            continue
        if sound_only and outcome.victims.pdb_violations:
            continue
        met.append(at)
        if len(met) >= enough and any(
            not candidate_at(outcomes, at).victims.pdb_violations for at in met
        ):
            break
    dry_runs = DryRuns()
    for _ in range(2):
        result = run_without_extenders(
            dry_runs.search(
                attempt, start, enough, limits, LowestPriorities(), NO_LIMIT, sound_only=sound_only
            )
        )
        assert result.candidates.tolist() == met
        if met:
            least = cheapest([candidate_at(outcomes, at) for at in met])
            best = [dry_runs.candidate(at) for at in dry_runs.cheapest(result.candidates).tolist()]
            assert list(map(told, best)) == list(map(told, least))
            candidates = [candidate_at(outcomes, at) for at in met]
            candidates.sort(key=lambda candidate: candidate.victims.pdb_violations > 0)
            in_order = dry_runs.in_order(result.candidates)
            assert list(map(told, in_order)) == list(map(told, candidates))
        else:
            assert result.failure == (f"[{', '.join(failed)}]" if failed[1:] else "".join(failed))
            assert result.refused.total() == len(outcomes)


def candidate_at(outcomes: dict[int, Candidate | Status], at: int) -> Candidate:
    candidate = outcomes[at]
    assert isinstance(candidate, Candidate)
    return candidate


# ------------------------------------------------------------------------------------- suppositions


def infos(seen: Snapshot) -> dict[str, Mapping[str, PodInfo]]:
    return {info.name: info.pods for info in seen.columns.infos if info is not None}


def state_of(seen: Snapshot) -> object:
    """Returns everything that rules can read of the rows."""
    columns = seen.columns
    columns.counts.validate()
    assert not columns.counts.removed_terminating
    order = columns.order
    resources = [columns.requested(name) for name in ("cpu", "memory", "ephemeral-storage", "pods")]
    for info in columns.infos:
        if info is not None:
            info.validate()
            assert not info.freed_ports
    return (
        [(name, list(pods)) for name, pods in infos(seen).items()],
        [amounts[order].tolist() for amounts in resources],
        columns.pods[order].tolist(),
        columns.nonzero[:, order].tolist(),
        {
            (*claim, ip): np.flatnonzero(held.present).tolist()
            for claim, by_ip in columns.ports.items()
            for ip, held in by_ip.items()
        },
    )


class _Stop(Exception):  # noqa: N818 - it is no error
    pass


@examples()
@given(objects=clusters(), data=st.data())
def test_a_supposition_leaves_no_trace(objects: list[Document], data: st.DataObject) -> None:
    """Pods are added, removed and settled in nested suppositions that may end at any point."""
    seen = snapshot(objects)
    before, version = state_of(seen), seen.columns.changes.version
    rows = st.sampled_from(seen.columns.order.tolist())
    strangers = [
        read(pod(f"s{i}", 0, 3, app="web", kind="far from web", port=True)) for i in range(3)
    ]

    def suppose(depth: int) -> None:
        seen_by = data.draw(st.sampled_from([None, strangers[0].template]))
        with patch.object(pod_template, "SMALL", -1), supposing(seen, seen_by) as supposition:
            for _ in range(data.draw(st.integers(0, 6))):
                match data.draw(st.sampled_from(["add", "remove", "settle", "nest", "stop"])):
                    case "add":
                        _add(supposition, data.draw(rows))
                    case "remove":
                        row = data.draw(rows)
                        there = list(_on(row).values())
                        if there:
                            supposition.remove(row, data.draw(st.sampled_from(there)))
                    case "settle":
                        supposition.settle()
                    case "nest" if depth < 2:
                        supposition.settle()
                        ports = [
                            info.freed_ports.copy()
                            for info in seen.columns.infos
                            if info is not None
                        ]
                        inside = [list(pods) for pods in infos(seen).values()]
                        with pytest.raises(_Stop):
                            suppose(depth + 1)
                        assert [list(pods) for pods in infos(seen).values()] == inside
                        assert [
                            info.freed_ports for info in seen.columns.infos if info is not None
                        ] == ports
                    case _:
                        raise _Stop
        raise _Stop

    def _on(row: int) -> Mapping[str, PodInfo]:
        info = seen.columns.infos[row]
        assert info is not None
        return info.pods

    def _add(supposition: Supposition, row: int) -> None:
        """Adds a new pod or one that was removed, but never a pod that is on the row."""
        for info in strangers:
            if info.key not in _on(row):
                supposition.add(row, info)
                return

    with pytest.raises(_Stop):
        suppose(0)
    assert state_of(seen) == before
    assert seen.columns.changes.version == version
    assert np.array_equal(seen.columns.order, snapshot(objects).columns.order)


def test_ports_of_a_pod_that_came_and_went_are_as_before() -> None:
    objects = [node("n0", 3), pod("p", 0, 2, on="n0", port=True)]
    seen, stranger = snapshot(objects), read(pod("s", 0, 2, port=True))
    before = state_of(seen)
    with supposing(seen) as supposition:
        supposition.add(0, stranger)
        supposition.remove(0, stranger)
        supposition.settle()
    assert state_of(seen) == before


def test_ports_that_an_outer_supposition_freed_stay_free() -> None:
    objects = [node("n0", 3), pod("p", 0, 2, on="n0", port=True)]
    seen, strangers = snapshot(objects), [read(pod(f"s{i}", 0, 2, port=True)) for i in range(2)]
    there, before = infos(seen)["n0"]["default/p"], state_of(seen)
    with supposing(seen) as outer:
        outer.add(0, strangers[0])
        outer.add(0, strangers[1])
        outer.remove(0, there)
        outer.settle()
        assert not seen.columns.ports
        with supposing(seen) as inner:
            inner.remove(0, strangers[0])
            inner.add(0, strangers[0])
            inner.settle()
            assert seen.columns.ports
        assert not seen.columns.ports
    assert state_of(seen) == before


# ------------------------------------------------------------------------------------------ ranking

VICTIMS = st.lists(
    st.builds(
        pod,
        st.uuids().map(str),
        st.sampled_from([-(1 << 31), -1, 0, 7, 1_000_000_000]),
        st.just(1),
        started=st.none() | st.integers(0, 3),
    ),
    min_size=1,
    max_size=4,
)
NOW = datetime(2026, 6, 1, tzinfo=UTC).timestamp()


@given(st.lists(st.tuples(VICTIMS, st.integers(0, 2)), min_size=1, max_size=6))
def test_the_criteria_in_order_leave_the_cheapest_node(
    choices: list[tuple[list[Document], int]],
) -> None:
    """The victims are in any order, because extenders may reorder them."""
    candidates = [
        Candidate(f"n{i}", Victims(tuple(map(read, victims)), broken))
        for i, (victims, broken) in enumerate(choices)
    ]

    def highest(victims: tuple[PodInfo, ...]) -> int:
        return max(victim.priority for victim in victims)

    def latest(victims: tuple[PodInfo, ...]) -> float:
        important = [victim for victim in victims if victim.priority == highest(victims)]
        times = [victim.pod.status.start_time for victim in important]
        return min(
            NOW if time is None else datetime.fromisoformat(time).timestamp() for time in times
        )

    left = candidates
    for criterion in (
        lambda victims: victims.pdb_violations,
        lambda victims: highest(victims.pods),
        lambda victims: sum(victim.priority + 2**31 for victim in victims.pods),
        lambda victims: len(victims.pods),
        lambda victims: -latest(victims.pods),
    ):
        least = min(criterion(candidate.victims) for candidate in left)
        left = [candidate for candidate in left if criterion(candidate.victims) == least]
    assert cheapest(candidates) == left
