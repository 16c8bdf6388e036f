"""Applies and updates by several managers, compared with a slow model of who owns what.

The model knows the laws of server-side apply alone, for the keys of a map: an apply owns what it
names and removes what it named before and nobody else owns; an update owns what it changes, and
takes it from all others.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from berth.tools.kubernetes.api.types.api_documents import Document, RefusedError, StoredObject
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.examples import examples
from tests.kit.stores import fresh_store

MAPS = BY_KIND["v1", "ConfigMap"]
APPLIERS, UPDATERS = ("ann", "ben", "cid"), ("dan", "eve")
KEYS = st.sampled_from("abcde")
VALUES = st.sampled_from("12")
DATA = st.dictionaries(KEYS, VALUES, min_size=1, max_size=4)
KEPT = {"kept": "0"}  # so that the map is never empty: an empty one is a field of its own
MERGE = "application/merge-patch+json"


class Model:
    """The values of the keys, and who owns which of them."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.owned: dict[str, set[str]] = {}

    def conflicts(self, manager: str, data: dict[str, str]) -> set[tuple[str, str]]:
        return {
            (other, key)
            for other, keys in self.owned.items()
            for key in keys & data.keys()
            if other != manager and self.values[key] != data[key]
        }

    def apply(self, manager: str, data: dict[str, str]) -> None:
        left_out = self.owned.get(manager, set()) - data.keys()
        for key in left_out:
            if not any(key in keys for other, keys in self.owned.items() if other != manager):
                del self.values[key]
        for other, key in self.conflicts(manager, data):
            self.owned[other].discard(key)
        self.values |= data
        self.owned[manager] = set(data)

    def update(self, manager: str, data: dict[str, str | None]) -> None:
        for key, value in data.items():
            if value == self.values.get(key):
                continue
            for keys in self.owned.values():
                keys.discard(key)
            if value is None:
                del self.values[key]
            else:
                self.values[key] = value
                self.owned.setdefault(manager, set()).add(key)


def refusal(api: Api, document: Document, force: bool) -> RefusedError | None:
    """Applies a document, and returns the refusal, if it is refused."""
    try:
        api.apply(MAPS, "default", "m", document, "", force=force)
    except RefusedError as refused:
        return refused
    return None


class Managers(RuleBasedStateMachine):
    """The same writes to an API server and to the model."""

    @initialize(data=DATA)
    def create(self, data: dict[str, str]) -> None:
        self.store, self.model = fresh_store(), Model()
        Api(self.store).seed()
        document = self.document(data | KEPT)
        Api(self.store, manager="dan").create(MAPS, "default", document)
        self.model.update("dan", {**data, **KEPT})

    def document(self, data: dict[str, str]) -> Document:
        document: Document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
        return {**document, "data": data}

    @property
    def stored(self) -> StoredObject:
        return self.store.stored(MAPS, "default", "m")

    @rule(manager=st.sampled_from(APPLIERS), data=DATA, force=st.booleans())
    def apply(self, manager: str, data: dict[str, str], force: bool) -> None:
        api, conflicts = Api(self.store, manager=manager), self.model.conflicts(manager, data)
        revision = self.store.revision
        refused = refusal(api, self.document(data), force)
        if refused is not None:
            causes = (refused.details or {})["causes"]
            found = {cause["field"] for cause in causes}
            assert (refused.code, force) == (409, False)
            assert found == {f".data.{key}" for _, key in conflicts}
            assert self.store.revision == revision, "a refused apply wrote something"
            return
        assert force or not conflicts
        self.model.apply(manager, data)
        revision = self.store.revision
        assert refusal(api, self.document(data), force) is None
        assert self.store.revision == revision, "the same apply again wrote something"

    @rule(
        manager=st.sampled_from(UPDATERS),
        data=st.dictionaries(KEYS, st.none() | VALUES, max_size=3),
    )
    def update(self, manager: str, data: dict[str, str | None]) -> None:
        Api(self.store, manager=manager).patch(MAPS, "default", "m", {"data": data}, MERGE, "")
        self.model.update(manager, data)

    @invariant()
    def owners_and_values_are_those_of_the_model(self) -> None:
        if not hasattr(self, "store"):
            return
        stored = self.stored
        assert stored.document.get("data", {}) == self.model.values
        assert stored.entries is not None
        entries = stored.entries.listed()
        owned = {
            entry["manager"]: {
                step[2:] for step in entry["fieldsV1"].get("f:data", {}) if step != "."
            }
            for entry in entries
        }
        expected = {name: keys for name, keys in self.model.owned.items() if keys}
        assert {name: keys for name, keys in owned.items() if keys} == expected


Managers.TestCase.settings = examples(share=1, steps=20)
TestManagers = Managers.TestCase
