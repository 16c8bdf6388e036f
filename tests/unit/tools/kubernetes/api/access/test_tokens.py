"""Tokens of service accounts: what they stand for, how long, and what they say about a pod."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from berth.tools.kubernetes.api.access.reviews import review
from berth.tools.kubernetes.api.access.tokens import (
    ACCOUNTS,
    ISSUER,
    NODES,
    PODS,
    bearer_user,
    issued_token,
)
from berth.tools.kubernetes.api.access.users import ADMINISTRATOR, Requester
from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PART = "authentication.kubernetes.io"


@pytest.fixture
def store() -> Store:
    store = fresh_store()
    api = Api(store)
    api.seed()
    api.create(ACCOUNTS, "default", {"metadata": {"name": "robot"}})
    return store


def issued(store: Store, at: datetime | None = None, **spec: Any) -> Document:
    account = store.get(ACCOUNTS, "default", "robot")
    if at is None:
        return issued_token(store, account, {"spec": spec})
    before, store.outside.wall = store.outside.wall, lambda: at
    token = issued_token(store, account, {"spec": spec})
    store.outside.wall = before
    return token


def robot(store: Store, **extra: list[str]) -> Requester:
    groups = (
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    )
    uid = store.get(ACCOUNTS, "default", "robot")["metadata"]["uid"]
    return Requester("system:serviceaccount:default:robot", uid, groups, extra)


def contents(token: str) -> Any:
    part = token.split(".")[1]
    return msgspec.json.decode(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def test_a_token_has_the_contents_that_programs_read(store: Store) -> None:
    read = contents(issued(store, NOW, audiences=["api"])["status"]["token"])
    uid = store.get(ACCOUNTS, "default", "robot")["metadata"]["uid"]
    began = int(NOW.timestamp())
    assert read == {
        "aud": ["api"],
        "exp": began + 3600,
        "iat": began,
        "iss": "https://kubernetes.default.svc.cluster.local",
        "jti": read["jti"],
        "kubernetes.io": {
            "namespace": "default",
            "serviceaccount": {"name": "robot", "uid": uid},
        },
        "nbf": began,
        "sub": "system:serviceaccount:default:robot",
    }


def test_a_token_stands_for_its_account_and_others_for_the_administrator(store: Store) -> None:
    ours = issued(store)["status"]["token"]
    credential = {f"{PART}/credential-id": [f"JTI={contents(ours)['jti']}"]}
    assert bearer_user(store, ours) == robot(store, **credential)
    assert bearer_user(store, f"{ours}x") == ADMINISTRATOR
    answer = review(store, ADMINISTRATOR, "TokenReview", "", {"spec": {"token": ours}})["status"]
    user = robot(store, **credential).info()
    assert answer == {"authenticated": True, "user": user, "audiences": [ISSUER]}


def test_a_token_is_for_its_audiences_alone(store: Store) -> None:
    def status(token: str, *audiences: str) -> Document:
        spec = {"token": token, "audiences": list(audiences)}
        answer = review(store, ADMINISTRATOR, "TokenReview", "", {"spec": spec})
        return dict(answer["status"])

    ours = issued(store)["status"]["token"]
    vault = issued(store, audiences=["vault", "mail"])["status"]["token"]
    with pytest.raises(RefusedError, match="Unauthorized"):
        bearer_user(store, vault)
    assert status(ours, "vault") == status(vault) == {"user": {}, "error": "invalid bearer token"}
    assert status(vault, "mail", "x")["audiences"] == ["mail"]
    both = issued(store, audiences=["vault", ISSUER])["status"]["token"]
    assert bearer_user(store, both).name == "system:serviceaccount:default:robot"


@pytest.mark.parametrize("odd", ["x", "a.b.", "a.bnVsbA.", "é.é.", "e30.e30", "e30.MQ.x"])
def test_a_malformed_token_stands_for_nobody(store: Store, odd: str) -> None:
    with pytest.raises(RefusedError, match="Unauthorized"):
        bearer_user(store, odd)
    answer = review(store, ADMINISTRATOR, "TokenReview", "", {"spec": {"token": odd}})
    assert answer["status"] == {"user": {}, "error": "invalid bearer token"}


def test_an_expired_token_and_one_of_a_deleted_account_stand_for_nobody(store: Store) -> None:
    late = issued(store, datetime.now(UTC) - timedelta(hours=2))["status"]["token"]
    orphan = issued(store)["status"]["token"]
    store.delete(ACCOUNTS, "default", "robot")
    Api(store).create(ACCOUNTS, "default", {"metadata": {"name": "robot"}})
    for token in (late, orphan):
        with pytest.raises(RefusedError, match="Unauthorized") as refused:
            bearer_user(store, token)
        assert refused.value.code == 401
        answer = review(store, ADMINISTRATOR, "TokenReview", "", {"spec": {"token": token}})
        assert answer["status"] == {"user": {}, "error": "invalid bearer token"}


def test_a_token_lasts_an_hour_unless_the_request_says_otherwise(store: Store) -> None:
    assert issued(store, NOW)["status"]["expirationTimestamp"] == "2026-01-01T01:00:00Z"
    longer = issued(store, NOW, expirationSeconds=7200, audiences=["api"])
    assert longer["status"]["expirationTimestamp"] == "2026-01-01T02:00:00Z"
    assert longer["spec"] == {"expirationSeconds": 7200, "audiences": ["api"]}
    for seconds in (599, (1 << 32) + 1):
        with pytest.raises(RefusedError, match=r"spec\.expirationSeconds: Invalid value"):
            issued(store, NOW, expirationSeconds=seconds)


def test_a_token_that_is_bound_to_a_pod_says_where_the_pod_is(store: Store) -> None:
    api = Api(store)
    node = api.create(NODES, "", {"metadata": {"name": "n1"}}).document
    pod = api.create(PODS, "default", robot_pod(nodeName="n1")).document
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    token = issued(store, boundObjectRef=reference)["status"]["token"]
    assert bearer_user(store, token).extra == {
        f"{PART}/credential-id": [f"JTI={contents(token)['jti']}"],
        f"{PART}/pod-name": ["p"],
        f"{PART}/pod-uid": [pod["metadata"]["uid"]],
        f"{PART}/node-name": ["n1"],
        f"{PART}/node-uid": [node["metadata"]["uid"]],
    }
    store.delete(PODS, "default", "p")
    with pytest.raises(RefusedError, match="Unauthorized"):
        bearer_user(store, token)
    with pytest.raises(RefusedError, match='pods "q" not found'):
        issued(store, boundObjectRef={**reference, "name": "q"})
    with pytest.raises(RefusedError, match=r"spec.boundObjectRef.kind: Unsupported value"):
        issued(store, boundObjectRef={"kind": "Job"})


def robot_pod(**spec: Any) -> Document:
    """A pod of the account robot."""
    container = {"name": "c", "image": "i"}
    spec = {"serviceAccountName": "robot", "containers": [container], **spec}
    return {"metadata": {"name": "p"}, "spec": spec}


@pytest.mark.parametrize("kind", ["Secret", "Node", "Pod"])
def test_a_token_ends_with_what_it_is_bound_to(store: Store, kind: str) -> None:
    api, bound = Api(store), BY_KIND["v1", kind]
    space = "default" if bound.namespaced else ""
    document = robot_pod() if kind == "Pod" else {"metadata": {"name": "p"}}
    reference = {"kind": kind, "apiVersion": "v1", "name": "p"}
    with pytest.raises(RefusedError, match="not found"):
        issued(store, boundObjectRef=reference)
    api.create(bound, space, document)
    with pytest.raises(RefusedError, match="does not match the UID in record"):
        issued(store, boundObjectRef={**reference, "uid": "other"})
    token = issued(store, boundObjectRef=reference)["status"]["token"]
    assert bearer_user(store, token).name == "system:serviceaccount:default:robot"
    store.delete(bound, space, "p")
    api.create(bound, space, document)  # another one of the same name
    with pytest.raises(RefusedError, match="Unauthorized"):
        bearer_user(store, token)


def test_a_token_ends_a_minute_after_its_pod_should_have(store: Store) -> None:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    now = [began]
    store.outside.wall = lambda: now[0]
    api = Api(store)
    api.create(PODS, "default", {**robot_pod(), "metadata": {"name": "p", "finalizers": ["a/b"]}})
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    token = issued(store, boundObjectRef=reference)["status"]["token"]
    api.delete(PODS, "default", "p", DeleteOptions(grace_period_seconds=0))
    now[0] = began + timedelta(seconds=59)
    assert bearer_user(store, token).name == "system:serviceaccount:default:robot"
    now[0] = began + timedelta(seconds=62)
    with pytest.raises(RefusedError, match="Unauthorized"):
        bearer_user(store, token)


def test_a_token_is_not_bound_to_a_pod_of_another_account(store: Store) -> None:
    Api(store).create(PODS, "default", robot_pod(serviceAccountName="default"))
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    with pytest.raises(RefusedError, match="to pod running with different serviceaccount name"):
        issued(store, boundObjectRef=reference)
