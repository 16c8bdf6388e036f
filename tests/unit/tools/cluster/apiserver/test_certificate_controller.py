"""Certificate requests are approved, signed and forgotten as kube-controller-manager does it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from ipaddress import ip_address

import anyio
import anyio.lowlevel
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from berth.tools.cluster.apiserver.authority import Authority
from berth.tools.cluster.apiserver.certificate_controller import decide_requests
from berth.tools.cluster.apiserver.certificate_signer import (
    CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    refusal,
)
from berth.tools.kubernetes.api.access.users import Requester
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.api_documents import Document
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.caller import Caller
from berth.tools.kubernetes.api.writes.certificate_requests import REQUESTS
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.stores import fresh_store

USAGES = ["digital signature", "client auth"]
GROUP = "rbac.authorization.k8s.io"
KEY = ec.generate_private_key(ec.SECP256R1())


def asked(
    user: str = "ann", groups: Sequence[str] = (), *names: x509.GeneralName
) -> x509.CertificateSigningRequest:
    own = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*own, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(KEY, hashes.SHA256())


def request(
    csr: x509.CertificateSigningRequest,
    signer: str = CLIENT,
    usages: Sequence[str] = USAGES,
    **spec: object,
) -> Document:
    pem = csr.public_bytes(serialization.Encoding.PEM)
    whole = {"request": base64.b64encode(pem).decode(), "signerName": signer, "usages": usages}
    return {"metadata": {"name": "r"}, "spec": {**whole, **spec}}


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A store whose requests are decided."""
    made = fresh_store()
    authority = Authority(made.outside.wall())
    deciding = asyncio.create_task(decide_requests(made, authority.issue))
    yield made
    deciding.cancel()


def approve(store: Store) -> None:
    condition = {"type": "Approved", "status": "True"}
    document = {"metadata": {"name": "r"}, "status": {"conditions": [condition]}}
    Api(store).update(REQUESTS, "", "r", document, "approval")


async def status_of(store: Store) -> Document:
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
    status: Document = store.get(REQUESTS, "", "r").get("status") or {}
    return status


async def test_an_approved_request_gets_its_certificate(store: Store) -> None:
    Api(store).create(REQUESTS, "", request(asked("ann", ["team"]), expirationSeconds=3600))
    assert await status_of(store) == {}
    approve(store)
    pem = base64.b64decode((await status_of(store))["certificate"])
    certificate = x509.load_pem_x509_certificate(pem)
    assert certificate.subject == asked("ann", ["team"]).subject
    lasts = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert lasts == timedelta(hours=1, minutes=5)
    purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]


async def test_a_request_that_no_signer_accepts_fails(store: Store) -> None:
    Api(store).create(REQUESTS, "", request(asked(), usages=["server auth"]))
    approve(store)
    failed = (await status_of(store))["conditions"][-1]
    assert (failed["type"], failed["reason"], failed["message"]) == (
        "Failed",
        "SignerValidationFailure",
        "invalid usage for client certificate: server auth",
    )


async def test_a_request_for_another_signer_is_left_alone(store: Store) -> None:
    Api(store).create(REQUESTS, "", request(asked(), "example.com/mine"))
    approve(store)
    assert "certificate" not in await status_of(store)


async def test_a_node_with_the_right_is_approved_at_once(store: Store) -> None:
    rule = {
        "verbs": ["create"],
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["certificatesigningrequests/selfnodeclient"],
    }
    role = {"metadata": {"name": "renew"}, "rules": [rule]}
    binding = {
        "metadata": {"name": "renew"},
        "roleRef": {"kind": "ClusterRole", "name": "renew"},
        "subjects": [{"kind": "User", "name": "system:node:a"}],
    }
    api = Api(store)
    for kind, document in (("ClusterRole", role), ("ClusterRoleBinding", binding)):
        api.create(BY_KIND[f"{GROUP}/v1", kind], "", document)
    node = Api(store, caller=Caller(Requester("system:node:a"), "update"))
    csr = asked("system:node:a", ["system:nodes"])
    node.create(REQUESTS, "", request(csr, KUBELET_CLIENT))
    status = await status_of(store)
    assert status["conditions"][0]["reason"] == "AutoApproved"
    assert status["certificate"]


IP = x509.IPAddress(ip_address("10.0.0.1"))
SERVING = ["digital signature", "server auth"]


@pytest.mark.parametrize(
    ("csr", "signer", "usages", "why"),
    [
        (asked(), CLIENT, USAGES, ""),
        (
            asked(),
            CLIENT,
            ["key encipherment"],
            "missing required usage for client certificate: client auth",
        ),
        (asked("system:node:a", ["system:nodes"]), KUBELET_CLIENT, USAGES, ""),
        (asked("a"), KUBELET_CLIENT, USAGES, "subject organization is not system:nodes"),
        (
            asked("a", ["system:nodes"]),
            KUBELET_CLIENT,
            USAGES,
            "subject common name does not begin with system:node:",
        ),
        (
            asked("system:node:a", ["system:nodes"], IP),
            KUBELET_CLIENT,
            USAGES,
            "IP subjectAltNames are not allowed",
        ),
        (
            asked("system:node:a", ["system:nodes"]),
            KUBELET_CLIENT,
            ["any"],
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (asked("system:node:a", ["system:nodes"], IP), KUBELET_SERVING, SERVING, ""),
        (
            asked("system:node:a", ["system:nodes"]),
            KUBELET_SERVING,
            SERVING,
            "DNS or IP subjectAltName is required",
        ),
        (asked(), "example.com/mine", USAGES, None),
    ],
)
def test_what_a_signer_says(
    csr: x509.CertificateSigningRequest, signer: str, usages: Sequence[str], why: str | None
) -> None:
    assert refusal(request(csr, signer, usages)) == why
