"""Nominations compared with a plain list of pods and their nodes, in order of nomination."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from berth.actors.scheduling.model.nominations import Nominations
from berth.plugin import PodInfo
from tests.kit import structs
from tests.kit.examples import examples

NAMES, NODES = st.sampled_from("abcd"), st.sampled_from(["n1", "n2", "n3"])
UIDS = st.sampled_from(["first", "second"])


def pod(name: str, uid: str, priority: int) -> PodInfo:
    return structs.pod_info(name, uid=f"{name}/{uid}", priority=priority)


class NominationsHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.nominations = Nominations()
        self.nominated: list[tuple[str, PodInfo]] = []

    @rule(name=NAMES, uid=UIDS, priority=st.integers(0, 2), node=NODES)
    def put(self, name: str, uid: str, priority: int, node: str) -> None:
        info = pod(name, uid, priority)
        version = self.nominations.changes.version
        self.nominations.put(info, node)
        changed = self.nominations.changes.since(version)
        earlier = [(on, earlier) for on, earlier in self.nominated if earlier.key == info.key]
        assert changed == {node, *(on for on, _ in earlier)}
        if [on for on, _ in earlier] == [node]:
            self.nominated[self.nominated.index(earlier[0])] = (node, info)
        else:
            self.nominated = [entry for entry in self.nominated if entry not in earlier] + [
                (node, info)
            ]

    @rule(name=NAMES, uid=st.none() | UIDS)
    def drop(self, name: str, uid: str | None) -> None:
        key, whole = f"ns/{name}", "" if uid is None else f"{name}/{uid}"
        version = self.nominations.changes.version
        self.nominations.drop(key, whole)
        gone = [
            (on, info) for on, info in self.nominated if info.key == key and whole in ("", info.uid)
        ]
        assert self.nominations.changes.since(version) == {on for on, _ in gone}
        self.nominated = [entry for entry in self.nominated if entry not in gone]

    @rule(name=NAMES, uid=UIDS, priority=st.integers(0, 2), node=NODES)
    def ahead(self, name: str, uid: str, priority: int, node: str) -> None:
        """All pods of at least its priority except itself; after its own entry in the list, only
        pods of a higher priority.
        """
        asking = pod(name, uid, priority)
        least, expected = priority, []
        for on, info in self.nominated:
            if on == node and info.uid == asking.uid:
                least += 1
            elif on == node and info.priority >= least:
                expected.append(info)
        assert self.nominations.ahead_of(asking, node) == expected

    @invariant()
    def agrees(self) -> None:
        assert bool(self.nominations) == bool(self.nominated)
        assert set(self.nominations.nodes()) == {on for on, _ in self.nominated}
        for node in ("n1", "n2", "n3"):
            assert list(self.nominations.on(node)) == [
                info for on, info in self.nominated if on == node
            ]
        for name in "abcd":
            where = [on for on, info in self.nominated if info.key == f"ns/{name}"]
            assert self.nominations.node_of(f"ns/{name}") == (where[0] if where else "")


TestNominations = NominationsHistory.TestCase
TestNominations.settings = examples()
