"""Snapshots: what is saved is read again as it was, and dumps of other clusters can be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth.tools.cluster.apiserver.kept_errors import SnapshotError
from berth.tools.cluster.apiserver.snapshot import load_snapshot, save_snapshot
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.custom_kinds import define, definition, kind_of, shirt
from tests.kit.documents import pod
from tests.kit.stores import fresh_store

PODS, MAPS = BY_KIND["v1", "Pod"], BY_KIND["v1", "ConfigMap"]
NAMESPACES = BY_KIND["v1", "Namespace"]


def contents(store: Store) -> dict[Any, Any]:
    documents = {}
    for kind, stored in store.everything():
        metadata = stored.document["metadata"]
        documents[kind.kind, metadata.get("namespace"), metadata["name"]] = stored.document
    return documents


def loaded(path: Path) -> Store:
    store = fresh_store(seed=2)
    load_snapshot(store, path)
    return store


@pytest.fixture
def store() -> Store:
    made = fresh_store()
    api = Api(made)
    api.seed()
    api.create(NAMESPACES, "", {"metadata": {"name": "n"}})
    api.create(MAPS, "n", {"metadata": {"name": "a"}, "data": {"k": "ü\n\u2028"}})
    api.create(PODS, "default", pod("p"))
    return made


def test_a_saved_cluster_is_read_again_as_it_was(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "cluster"
    save_snapshot(store, path)
    assert path.stat().st_mode & 0o777 == 0o600
    again = loaded(path)
    assert (contents(again), again.revision) == (contents(store), store.revision)
    Api(again).seed()
    assert contents(again) == contents(store), "the first objects are not made again"
    path.chmod(0o640)
    save_snapshot(again, path)
    assert path.stat().st_mode & 0o777 == 0o640
    assert contents(loaded(path)) == contents(store)
    assert [file.name for file in tmp_path.iterdir()] == ["cluster"]


@pytest.mark.parametrize("form", ["yaml", "json", "answer"])
def test_a_dump_of_another_cluster_is_read(tmp_path: Path, form: str) -> None:
    """Its namespaces are missing, if only pods were dumped. The API's own lists name the kind of
    their objects once.
    """
    metadata = {"name": "p", "namespace": "m", "uid": "u", "resourceVersion": "700"}
    dumped = {**pod("p"), "metadata": metadata, "status": {"phase": "Running"}}
    document = {"apiVersion": "v1", "kind": "List", "items": [dumped], "metadata": {}}
    path = tmp_path / "dump"
    if form == "answer":
        item = {field: dumped[field] for field in ("metadata", "spec", "status")}
        document = {"apiVersion": "v1", "kind": "PodList", "items": [item]}
    path.write_text(yaml.safe_dump(document) if form == "yaml" else json.dumps(document))
    store = loaded(path)
    assert store.get(PODS, "m", "p") == dumped
    assert store.find(NAMESPACES, "", "m") is not None
    assert store.revision > 700


def test_manifests_are_created(tmp_path: Path) -> None:
    path = tmp_path / "manifests"
    manifests = [
        {**pod("p", namespace="space"), "status": {"phase": "Running"}},
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "space", "labels": {"l": "x"}},
        },
    ]
    path.write_text(yaml.safe_dump_all(manifests))
    store = loaded(path)
    created = store.get(PODS, "space", "p")
    assert created["metadata"]["uid"]
    assert created["spec"]["restartPolicy"] == "Always"
    assert created["status"]["phase"] == "Running"
    assert store.get(NAMESPACES, "", "space")["metadata"]["labels"]["l"] == "x"


def test_custom_objects_are_read_with_their_definitions(tmp_path: Path, store: Store) -> None:
    define(store, definition())
    Api(store).create(kind_of(store), "default", shirt("a", color="blue"))
    saved, manifests = tmp_path / "cluster", tmp_path / "manifests"
    save_snapshot(store, saved)
    again = loaded(saved)
    assert contents(again) == contents(store)
    assert again.get(kind_of(again), "default", "a")["spec"] == {"color": "blue"}
    manifests.write_text(yaml.safe_dump_all([shirt("a", color="red"), definition()]))
    new = loaded(manifests)
    assert new.get(kind_of(new), "default", "a")["spec"] == {"color": "red"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "cluster, line 2: "),
        ("- a", "expected objects or lists of them"),
        ("kind: Boat\napiVersion: v1", "there is no kind Boat in v1"),
        ("kind: Pod\napiVersion: v1", "an object of kind Pod has no name"),
        (
            "kind: ConfigMap\napiVersion: v1\nmetadata: {name: A_}",
            'cluster: ConfigMap "A_" is invalid: metadata.name: ',
        ),
    ],
)
def test_a_file_that_is_no_snapshot_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "cluster"
    path.write_text(text)
    with pytest.raises(SnapshotError) as refused:
        loaded(path)
    assert problem in str(refused.value)
