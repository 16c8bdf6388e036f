"""Rules for certificate signing requests: their spec, and the conditions that decide on them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Any

from berth.actors.scheduling.kube.names import dns_label, dns_subdomain

from .fields import Document, duplicate, forbidden, invalid, required, too_long, unsupported

LEGACY = "kubernetes.io/legacy-unknown"
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
_LEAST_SECONDS = 600
_MOST_DOMAIN, _MOST_NAME = 253, 571  # bytes
_REQUEST = b"-----BEGIN CERTIFICATE REQUEST-----"
_USAGES = (
    *("any", "cert sign", "client auth", "code signing", "content commitment", "crl sign"),
    *("data encipherment", "decipher only", "digital signature", "email protection"),
    *("encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement"),
    *("key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime"),
    *("server auth", "signing", "timestamping"),
)
_STATUSES = ("False", "True", "Unknown")


def request(document: Document, _before: Document | None) -> Iterator[str]:
    spec = document.get("spec") or {}
    text = spec.get("request") or ""
    if why := _request_problem(text):
        yield invalid("spec.request", text or None, why)
    usages = spec.get("usages") or ()
    if not usages:
        yield required("spec.usages")
    for i, usage in enumerate(usages):
        if usage not in _USAGES:
            yield unsupported(f"spec.usages[{i}]", usage, _USAGES)
        if usage in usages[:i]:
            yield duplicate(f"spec.usages[{i}]", usage)
    signer, seconds = spec.get("signerName") or "", spec.get("expirationSeconds")
    if signer == LEGACY:
        detail = "the legacy signerName is not allowed via this API version"
        yield invalid("spec.signerName", signer, detail)
    else:
        yield from _signer_name("spec.signerName", signer)
    if seconds is not None and seconds < _LEAST_SECONDS:
        detail = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid("spec.expirationSeconds", seconds, detail)


def _request_problem(text: str) -> str:
    """Returns why a text in base64 is no certificate request; "" if it is one. Without the package
    cryptography, only the beginning of the PEM block is looked at.
    """
    try:
        pem = base64.b64decode(text)
    except binascii.Error as problem:
        return str(problem)
    start = pem.find(_REQUEST)
    if start < 0:
        return "PEM block type must be CERTIFICATE REQUEST"
    try:
        from cryptography import x509
    except ImportError:
        return ""
    try:
        parsed = x509.load_pem_x509_csr(pem[start:])
    except ValueError as problem:
        return str(problem)
    return "" if parsed.is_signature_valid else "x509: signature is not valid"


def _signer_name(path: str, name: str) -> Iterator[str]:
    if not name:
        yield required(path)
        return
    domain, slash, rest = name.partition("/")
    if not slash or "/" in rest:
        detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield invalid(path, name, detail)
        return
    if len(domain.encode()) > _MOST_DOMAIN:
        yield too_long(path, _MOST_DOMAIN)
    yield from _labels(path, domain, dns_label)
    if "." not in domain:
        detail = "should be a domain with at least two segments separated by dots"
        yield invalid(path, domain, detail)
    yield from _labels(path, rest, dns_subdomain)
    if len(name.encode()) > _MOST_NAME:
        yield too_long(path, _MOST_NAME)


def _labels(path: str, text: str, form: Any) -> list[str]:
    """Returns the problems of the first part between dots that has any."""
    for label in text.split("."):
        if messages := form(label):
            return [invalid(path, text, f'validating label "{label}": {why}') for why in messages]
    return []


def status(document: Document, before: Document) -> Iterator[str]:
    """Checks a status that may get a certificate, but no decision."""
    yield from _conditions(document, before)
    for type_ in (APPROVED, DENIED):
        after, was = _of_type(document, type_), _of_type(before, type_)
        if len(after) > len(was):
            detail = f'updates may not add a condition of type "{type_}"'
            yield forbidden("status.conditions", detail)
    certificate, given = (
        (each.get("status") or {}).get("certificate") for each in (document, before)
    )
    if given and certificate != given:
        detail = "updates may not modify existing certificate content"
        yield forbidden("status.certificate", detail)
    if certificate and certificate != given and (why := _certificate_problem(certificate)):
        yield invalid("status.certificate", "<certificate data>", why)


def approval(document: Document, before: Document) -> Iterator[str]:
    """Checks a decision about a request."""
    yield from _conditions(document, before)


def _certificate_problem(text: str) -> str:
    pem = base64.b64decode(text)
    if b"-----BEGIN CERTIFICATE-----" not in pem:
        return "must contain at least one CERTIFICATE PEM block"
    return ""


def _of_type(document: Document, type_: str) -> list[Document]:
    return [each for each in _listed(document) if each.get("type") == type_]


def _listed(document: Document) -> Sequence[Document]:
    return (document.get("status") or {}).get("conditions") or ()


def _conditions(document: Document, before: Document) -> Iterator[str]:
    """Checks that no decision is taken back, and none contradicts another."""
    path, seen = "status.conditions", set[str]()
    for i, condition in enumerate(_listed(document)):
        type_, state = condition.get("type") or "", condition.get("status") or ""
        if not type_:
            yield required(f"{path}[{i}].type")
        states = ("True",) if type_ in (APPROVED, DENIED, FAILED) else _STATUSES
        if not state:
            yield required(f"{path}[{i}].status")
        elif state not in states:
            yield unsupported(f"{path}[{i}].status", state, states)
        other = {APPROVED: DENIED, DENIED: APPROVED}.get(type_, "")
        if other and other in seen:
            yield invalid(path, type_, "Approved and Denied conditions are mutually exclusive")
        if type_ in seen:
            yield duplicate(f"{path}[{i}].type", type_)
        seen.add(type_)
    for type_ in (APPROVED, DENIED, FAILED):
        if len(_of_type(document, type_)) < len(_of_type(before, type_)):
            detail = f'updates may not remove a condition of type "{type_}"'
            yield forbidden(path, detail)
