"""The users of client certificates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from berth.actors.server.client_certificates import UID, user_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def certificate(*uids: str) -> bytes:
    """Returns a certificate of the user "someone", in DER."""
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, "someone")]
    parts += [x509.NameAttribute(UID, uid) for uid in uids]
    key = ec.generate_private_key(ec.SECP256R1())
    signed = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(parts))
        .issuer_name(x509.Name(parts))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - timedelta(hours=1))
        .not_valid_after(NOW + timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    return signed.public_bytes(Encoding.DER)


@pytest.mark.parametrize("reads_uid", [True, False])
def test_the_uid_counts_only_with_its_feature_gate(reads_uid: bool) -> None:
    user = user_of(certificate("one"), NOW, reads_uid=reads_uid)
    assert user is not None
    assert (user.name, user.uid) == ("someone", "one" if reads_uid else "")


def test_several_uids_are_no_error_if_none_is_read() -> None:
    assert user_of(certificate("one", "two"), NOW, reads_uid=False) is not None
