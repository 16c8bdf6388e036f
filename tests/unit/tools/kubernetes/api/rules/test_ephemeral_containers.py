"""The ephemeral containers of a pod: added through their subresource, and kept as they are."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.requests.media_types import MERGE, STRATEGIC
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document, pod
from tests.kit.stores import fresh_store

POD = BY_KIND["v1", "Pod"]


def with_pod(**annotations: str) -> Store:
    store = fresh_store()
    Api(store).seed()
    created = pod("p", node="n", annotations=annotations)
    Api(store).create(POD, "default", created)
    return store


def debugger(name: str = "d", **fields: Any) -> Document:
    return {"name": name, "image": "busybox", **fields}


def add(store: Store, *containers: Document, subresource: str = "ephemeralcontainers") -> Document:
    patch = {"spec": {"ephemeralContainers": list(containers)}, "metadata": {"labels": {"a": "b"}}}
    return Api(store).patch(POD, "default", "p", patch, STRATEGIC, subresource).document


def test_containers_are_added_and_nothing_else() -> None:
    store = with_pod()
    generation = store.get(POD, "default", "p")["metadata"]["generation"]
    after = add(store, debugger(targetContainerName="c"))
    (added,) = after["spec"]["ephemeralContainers"]
    assert (added["name"], added["terminationMessagePath"]) == ("d", "/dev/termination-log")
    assert "a" not in after["metadata"].get("labels", {})
    assert after["metadata"]["generation"] == generation + 1
    names = [each["name"] for each in add(store, debugger("e"))["spec"]["ephemeralContainers"]]
    assert sorted(names) == ["d", "e"]


@pytest.mark.parametrize(
    ("container", "problem"),
    [
        (debugger("c"), 'spec.ephemeralContainers[0].name: Duplicate value: "c"'),
        (debugger(targetContainerName="x"), 'targetContainerName: Not found: "x"'),
        (debugger(ports=[{"containerPort": 1}]), "cannot be set for an Ephemeral Container"),
    ],
)
def test_containers_that_are_not_allowed_are_refused(container: Document, problem: str) -> None:
    with pytest.raises(RefusedError) as refused:
        add(with_pod(), container)
    assert refused.value.code == 422
    assert problem in str(refused.value)


def test_a_container_needs_a_name() -> None:
    patch = {"spec": {"ephemeralContainers": [{"image": "busybox"}]}}
    with pytest.raises(RefusedError) as refused:
        Api(with_pod()).patch(POD, "default", "p", patch, MERGE, "ephemeralcontainers")
    assert "spec.ephemeralContainers[0].name: Required value" in str(refused.value)


def test_containers_stay_as_they_are() -> None:
    store = with_pod()
    before = add(store, debugger())
    with pytest.raises(RefusedError, match='existing ephemeral containers "d" may not be changed'):
        add(store, debugger(image="other"))
    none = {**before, "spec": {**before["spec"], "ephemeralContainers": []}}
    with pytest.raises(RefusedError, match='existing ephemeral containers "d" may not be removed'):
        Api(store).update(POD, "default", "p", none, "ephemeralcontainers")


def test_an_ordinary_update_adds_none() -> None:
    with pytest.raises(RefusedError, match="pod updates may not change fields other than"):
        add(with_pod(), debugger(), subresource="")


def test_static_pods_have_none() -> None:
    store = with_pod(**{"kubernetes.io/config.mirror": "x"})
    with pytest.raises(RefusedError, match="static pods do not support ephemeral containers"):
        add(store, debugger())
