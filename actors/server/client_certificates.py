"""Client certificates: the authority that signed one, and the user that it names.

The handshake has verified that a chain leads to an authority of clients. This module decides which
kind of authority that is: one of users, or one of authenticating proxies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID, ObjectIdentifier

from .identity import User

UID = ObjectIdentifier("1.3.6.1.4.1.57683.2")
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"


class CertificateError(ValueError):
    """The certificate cannot be read, or does not prove enough."""


def read_bundle(pem: bytes, where: str) -> frozenset[bytes]:
    """Returns the certificates in PEM text, in DER.

    Raises ValueError, with `where`, if there is no certificate or one cannot be read.
    """
    try:
        certificates = x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise ValueError(f"{where}: expected certificates in PEM") from None
    return frozenset(each.public_bytes(Encoding.DER) for each in certificates)


def signed_by(chain: Sequence[bytes], bundle: frozenset[bytes]) -> bool:
    """True if this verified chain leads to a certificate of the bundle.

    The chain may go on beyond that certificate: the part up to it is verified as well.
    """
    return any(each in bundle for each in chain)


def common_name(certificate: bytes) -> str:
    """Returns the subject's common name, or "". Raises CertificateError if it is unreadable."""
    return _last_value(_read(certificate).subject, NameOID.COMMON_NAME)


def seconds_left(certificate: bytes, now: datetime) -> float:
    """Returns how long the certificate is valid. Raises CertificateError if it is unreadable."""
    return (_read(certificate).not_valid_after_utc - now).total_seconds()


def user_of(certificate: bytes, now: datetime, *, reads_uid: bool = True) -> User | None:
    """Returns the user: the common name, with the organizations as groups; None without a common
    name. Raises CertificateError if the certificate has expired since the handshake, or has several
    uids.
    """
    read = _read(certificate)
    if not read.not_valid_before_utc <= now <= read.not_valid_after_utc:
        raise CertificateError("the client certificate has expired or is not yet valid")
    name = _last_value(read.subject, NameOID.COMMON_NAME)
    if not name:
        return None
    uids = _all(read.subject, UID) if reads_uid else []
    if len(uids) > 1 or uids == [""]:
        raise CertificateError("expected one uid in the client certificate")
    fingerprint = f"X509SHA256={hashlib.sha256(certificate).hexdigest()}"
    groups = tuple(_all(read.subject, NameOID.ORGANIZATION_NAME))
    return User(name, "".join(uids), groups, {CREDENTIAL_ID: (fingerprint,)})


def _read(certificate: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(certificate)
    except ValueError:
        raise CertificateError("the client certificate cannot be read") from None


def _all(subject: x509.Name, kind: ObjectIdentifier) -> list[str]:
    return [str(each.value) for each in subject.get_attributes_for_oid(kind)]


def _last_value(subject: x509.Name, kind: ObjectIdentifier) -> str:
    """Returns the last value of an attribute, which is the one that Go uses."""
    return (_all(subject, kind) or [""])[-1]
