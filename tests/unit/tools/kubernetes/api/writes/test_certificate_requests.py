"""Certificate requests: who asks, who decides, and what a decision may change."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from berth.tools.kubernetes.api.access.users import Requester
from berth.tools.kubernetes.api.types.api_documents import Document, RefusedError
from berth.tools.kubernetes.api.writes.caller import Caller
from berth.tools.kubernetes.api.writes.certificate_requests import REQUESTS
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.stores import fresh_store

USER = Requester("ann", groups=("system:authenticated",))
MASTER = Requester("root", groups=("system:masters",))


def api(user: Requester = MASTER) -> Api:
    return Api(fresh_store(), caller=Caller(user, "update"))


def pem() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder(x509.Name([])).sign(key, hashes.SHA256())
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()


def request(**spec: object) -> Document:
    asked = {"request": pem(), "signerName": "a.b/c", "usages": ["any"], **spec}
    return {"metadata": {"name": "r"}, "spec": asked}


def decide(api: Api, *types: str, subresource: str = "approval") -> Document:
    conditions = [{"type": type_, "status": "True"} for type_ in types]
    document = {"metadata": {"name": "r"}, "status": {"conditions": conditions}}
    return api.update(REQUESTS, "", "r", document, subresource).document


def types_of(document: Document) -> Sequence[str]:
    return [each["type"] for each in document["status"].get("conditions") or ()]


def test_a_request_names_its_user_and_not_what_the_client_says() -> None:
    created = api(USER).create(REQUESTS, "", request(username="root", groups=["system:masters"]))
    spec = created.document["spec"]
    assert (spec["username"], spec["groups"]) == ("ann", ["system:authenticated"])
    assert created.document["status"] == {}


def test_an_update_keeps_what_is_asked() -> None:
    one = api()
    created = one.create(REQUESTS, "", request()).document
    changed = {"metadata": {"name": "r", "labels": {"a": "b"}}, "spec": {"signerName": "x.y/z"}}
    after = one.update(REQUESTS, "", "r", changed, "").document
    assert after["spec"] == created["spec"]
    assert after["metadata"]["labels"] == {"a": "b"}


def test_an_approval_may_carry_notes() -> None:
    one = api()
    one.create(REQUESTS, "", request())
    notes = {"name": "r", "annotations": {"why": "known"}}
    document = {"metadata": notes, "status": {}}
    after = one.update(REQUESTS, "", "r", document, "approval").document
    assert after["metadata"]["annotations"] == {"why": "known"}


def test_an_approval_gets_its_times_and_stays() -> None:
    one = api()
    one.create(REQUESTS, "", request())
    (condition,) = decide(one, "Approved")["status"]["conditions"]
    assert condition["lastUpdateTime"] == condition["lastTransitionTime"]
    with pytest.raises(RefusedError, match='may not remove a condition of type "Approved"'):
        decide(one)
    with pytest.raises(RefusedError, match="Approved and Denied conditions are mutually exclusive"):
        decide(one, "Approved", "Denied")


def test_only_an_approval_decides() -> None:
    one = api()
    one.create(REQUESTS, "", request())
    with pytest.raises(RefusedError, match='may not add a condition of type "Approved"'):
        decide(one, "Approved", subresource="status")
    assert types_of(decide(one, "Failed", subresource="status")) == ["Failed"]


def test_a_user_without_the_right_may_not_approve() -> None:
    one = api()
    one.create(REQUESTS, "", request())
    other = Api(one.store, caller=Caller(USER, "update"))
    with pytest.raises(RefusedError, match="not permitted to approve requests with signerName"):
        decide(other, "Approved")


def test_a_request_that_is_none_is_refused() -> None:
    broken = base64.b64encode(b"-----BEGIN CERTIFICATE REQUEST-----\nx").decode()
    with pytest.raises(RefusedError, match=r"spec\.request: Invalid value"):
        api().create(REQUESTS, "", request(request=broken))
