"""Who sends a request, with and without --secure."""

from __future__ import annotations

import hmac

import pytest

from berth.tools.kubernetes.api.access.authentication import NOBODY, sender
from berth.tools.kubernetes.api.access.rights import Act, authorize
from berth.tools.kubernetes.api.access.tokens import ACCOUNTS, issued_token
from berth.tools.kubernetes.api.access.users import ADMINISTRATOR, Requester
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

ROBOT = "system:serviceaccount:default:robot"


@pytest.fixture
def store() -> Store:
    store = fresh_store()
    api = Api(store)
    api.seed()
    api.create(ACCOUNTS, "default", {"metadata": {"name": "robot"}})
    return store


class Signer:
    """Signs with a secret in place of a key, which takes longer."""

    algorithm, key_id = "HS256", "one"

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, text: bytes) -> bytes:
        return hmac.digest(self._secret, text, "sha256")

    def is_signed(self, text: bytes, signature: bytes) -> bool:
        return self.sign(text) == signature

    def public_keys(self) -> list[Document]:
        return []


def secured(store: Store) -> Store:
    store.secure, store.token_signer = True, Signer(b"key")
    return store


def token_of(store: Store) -> str:
    issued = issued_token(store, store.get(ACCOUNTS, "default", "robot"), {})
    return str(issued["status"]["token"])


def shown(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_a_certificate_goes_before_a_token(store: Store) -> None:
    jane = Requester("jane", groups=("dev", "system:authenticated"))
    assert sender(store, shown(token_of(store)), ("jane", ("dev",))) == jane
    assert sender(store, shown(token_of(store)), ("", ())).name == ROBOT


def test_without_credentials_it_is_the_administrator_or_nobody(store: Store) -> None:
    assert sender(store, {}, None) == ADMINISTRATOR
    assert sender(secured(store), {}, None) == NOBODY


def test_nobody_may_do_everything_unless_the_server_is_secure(store: Store) -> None:
    pods, health = Act("list", "", "pods"), Act("get", path="/healthz")
    assert authorize(store, NOBODY, pods).allowed
    secured(store)
    assert not authorize(store, NOBODY, pods).allowed
    assert authorize(store, NOBODY, health).allowed


@pytest.mark.parametrize(
    "credentials", ["Bearer x", "Bearer a.b.c", "Basic YTpi", "x", "Bearer", "Bearer "]
)
def test_a_secure_server_refuses_what_it_does_not_know(store: Store, credentials: str) -> None:
    with pytest.raises(RefusedError, match="Unauthorized") as caught:
        sender(secured(store), {"authorization": credentials}, None)
    assert caught.value.code == 401


def test_a_secure_server_refuses_tokens_that_it_did_not_sign(store: Store) -> None:
    unsigned = token_of(store)
    signed = token_of(secured(store))
    assert sender(store, shown(signed), None).name == ROBOT
    for forged in (unsigned, signed[:-1], f"{unsigned}{signed.rpartition('.')[2]}"):
        with pytest.raises(RefusedError, match="Unauthorized"):
            sender(store, shown(forged), None)
    store.token_signer = Signer(b"other")
    with pytest.raises(RefusedError, match="Unauthorized"):
        sender(store, shown(signed), None)
