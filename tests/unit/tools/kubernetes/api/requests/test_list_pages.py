"""The pages of a list: which revision they show, and how a list goes on while objects change."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from berth.tools.kubernetes.api.requests.list_pages import (
    CONTINUE_EXPIRED,
    EXPIRED,
    ListPage,
    list_page,
)
from berth.tools.kubernetes.api.requests.selectors import matches_of
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from tests.kit.documents import thing
from tests.kit.stores import fresh_store

MAPS = BY_KIND["v1", "ConfigMap"]
NODES = BY_KIND["v1", "Node"]


def config_map(name: str, namespace: str = "n", **data: str) -> dict[str, Any]:
    return thing("ConfigMap", name, namespace, data=data)


@pytest.fixture
def store() -> Store:
    """A store with a to e, at the revisions 2 to 6."""
    made = fresh_store()
    for name in "abcde":
        made.create(MAPS, config_map(name))
    return made


def page(store: Store, namespace: str = "n", labels: str = "", **query: str) -> ListPage:
    return list_page(store, MAPS, namespace, query, matches_of(MAPS, labels, ""))


def names(shown: ListPage) -> str:
    return "".join(stored.document["metadata"]["name"] for stored in shown.items)


def token(**fields: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


def change_everything(store: Store) -> None:
    store.delete(MAPS, "n", "c")
    store.delete(MAPS, "n", "a")
    store.update(MAPS, config_map("d", k="changed"))
    store.update(MAPS, config_map("d", k="changed again"))
    store.create(MAPS, config_map("bb"))
    store.create(MAPS, config_map("c", k="another"))


def test_a_list_goes_on_as_it_was_at_its_first_page(store: Store) -> None:
    first = page(store, limit="2")
    assert (names(first), first.revision, first.remaining) == ("ab", 6, 3)
    assert base64.urlsafe_b64decode(first.token + "==") == (
        b'{"v":"meta.k8s.io/v1","rv":6,"start":"/b\\u0000"}'
    )
    change_everything(store)
    second = page(store, limit="2", **{"continue": first.token})
    assert (names(second), second.revision, second.remaining) == ("cd", 6, 1)
    assert [stored.document["data"] for stored in second.items] == [{}, {}]
    third = page(store, limit="2", **{"continue": second.token})
    assert (names(third), third.revision, third.token, third.remaining) == ("e", 6, "", None)


def test_after_compaction_a_list_can_go_on_at_the_latest_revision(store: Store) -> None:
    first = page(store, limit="2")
    change_everything(store)
    store.compact()
    with pytest.raises(RefusedError, match="The provided continue parameter is too old") as refused:
        page(store, limit="2", **{"continue": first.token})
    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    assert str(refused.value) == CONTINUE_EXPIRED
    second = page(store, **{"continue": refused.value.continue_})
    assert ([*names(second)], second.revision) == (["b", "b", "c", "d", "e"], 12)


@pytest.mark.parametrize(
    ("query", "shown", "revision"),
    [
        ({}, "bbbcde", 12),
        ({"resourceVersion": "0"}, "bbbcde", 12),
        ({"resourceVersion": "0", "limit": "1"}, "bbbcde", 12),
        ({"resourceVersion": "3"}, "bbbcde", 12),
        ({"resourceVersion": "3", "limit": "1"}, "a", 3),
        ({"resourceVersion": "3", "limit": "-1"}, "bbbcde", 12),
        ({"resourceVersion": "3", "resourceVersionMatch": "NotOlderThan"}, "bbbcde", 12),
        ({"resourceVersion": "3", "resourceVersionMatch": "NotOlderThan", "limit": "1"}, "b", 12),
        ({"resourceVersion": "3", "resourceVersionMatch": "Exact"}, "ab", 3),
        ({"resourceVersion": "3", "resourceVersionMatch": "Exact", "limit": "1"}, "a", 3),
        ({"resourceVersion": "8", "resourceVersionMatch": "Exact"}, "bde", 8),
        ({"resourceVersion": "1", "resourceVersionMatch": "Exact"}, "", 1),
    ],
)
def test_a_list_shows_the_revision_that_is_asked_for(
    store: Store, query: dict[str, str], shown: str, revision: int
) -> None:
    change_everything(store)
    assert (names(page(store, **query)), page(store, **query).revision) == (shown, revision)


def test_what_remains_is_not_counted_for_a_selection(store: Store) -> None:
    first = page(store, limit="1", labels="a!=b")
    assert (names(first), first.remaining) == ("a", None)
    assert first.token
    last = page(store, limit="5")
    assert (names(last), last.token) == ("abcde", "")


def test_a_list_of_all_namespaces_goes_on_in_the_next_one(store: Store) -> None:
    store.create(MAPS, config_map("a", "o"))
    seen, following = "", ""
    while True:
        shown = page(store, "", limit="2", **({"continue": following} if following else {}))
        seen += names(shown)
        following = shown.token
        if not following:
            break
    assert seen == "abcdea"


def test_a_list_of_a_kind_without_namespaces_goes_on() -> None:
    store = fresh_store()
    for name in "xyz":
        store.create(NODES, {"metadata": {"name": name}})
    first = list_page(store, NODES, "", {"limit": "1"}, None)
    rest = list_page(store, NODES, "", {"continue": first.token}, None)
    assert names(first) + names(rest) == "xyz"


FUTURE = "Timeout: Too large resource version: 99, current: 6"
INVALID = "invalid continue token: continue key is not valid: "


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ({"resourceVersion": "99"}, 504, FUTURE),
        ({"resourceVersion": "99", "resourceVersionMatch": "Exact"}, 504, FUTURE),
        ({"resourceVersion": "99", "resourceVersionMatch": "NotOlderThan"}, 504, FUTURE),
        ({"resourceVersion": "99", "limit": "3"}, 504, FUTURE),
        ({"continue": token(v="meta.k8s.io/v1", rv=99, start="/b\0")}, 504, FUTURE),
        (
            {"resourceVersion": "-1"},
            400,
            (
                'invalid resource version: resourceVersion: Invalid value: "-1": '
                'strconv.ParseUint: parsing "-1": invalid syntax'
            ),
        ),
        ({"limit": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"timeoutSeconds": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"continue": "!!"}, 400, INVALID + "illegal base64 data at input byte 0"),
        ({"continue": "abcde"}, 400, INVALID + "illegal base64 data at input byte 4"),
        (
            {"continue": token(v="x", rv=5, start="a")},
            400,
            INVALID + "server does not recognize this encoded version x",
        ),
        (
            {"continue": token(v="meta.k8s.io/v1", rv=0, start="a")},
            400,
            INVALID + "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ),
        (
            {"continue": token(v="meta.k8s.io/v1", rv=5, start="")},
            400,
            INVALID + "encoded start key empty (version meta.k8s.io/v1)",
        ),
        ({"continue": token(v="meta.k8s.io/v1", rv=5, start="../x")}, 400, INVALID + "../x"),
        ({"continue": token(v="meta.k8s.io/v1", rv=5, start="/a//x")}, 400, INVALID + "/a//x"),
        (
            {"continue": token(v="meta.k8s.io/v1", rv=5, start="/b\0"), "resourceVersion": "5"},
            400,
            "specifying resource version is not allowed when using continue",
        ),
    ],
)
def test_an_invalid_list_is_refused_in_kubernetes_words(
    store: Store, query: dict[str, str], code: int, message: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        page(store, **query)
    assert (refused.value.code, str(refused.value)) == (code, message)


def test_a_compacted_revision_is_refused(store: Store) -> None:
    store.compact()
    with pytest.raises(RefusedError) as refused:
        page(store, resourceVersion="3", resourceVersionMatch="Exact")
    assert (refused.value.code, str(refused.value)) == (410, EXPIRED)
    assert names(page(store, resourceVersion="6", resourceVersionMatch="Exact")) == "abcde"
