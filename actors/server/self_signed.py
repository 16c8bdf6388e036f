"""A self-signed certificate, which no authority vouches for, for a server that has no other.

It is made in memory, or kept in a folder and used again, as kube-scheduler does with --cert-dir.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NAME = "kube-scheduler"  # of the files
VALID = timedelta(days=365)
BEFORE = timedelta(hours=1)  # the clocks of clients may be late
LOOPBACK = "127.0.0.1"
LONGEST_COMMON_NAME = 64


def make_pair(bind_address: str, now: datetime, host: str = "") -> tuple[bytes, bytes]:
    """Returns a new certificate, valid for a year, and its key, both in PEM. `host` is the name of
    this machine by default.
    """
    host = host or socket.gethostname()
    key = ec.generate_private_key(ec.SECP256R1())
    common_name = f"{host[:40]}@{int(now.timestamp())}"[:LONGEST_COMMON_NAME]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,  # as its own authority
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BEFORE)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName(_names(host, bind_address)), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    certificate = builder.sign(key, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def keep_pair(folder: Path, bind_address: str, now: datetime) -> tuple[Path, Path]:
    """Returns the files of the certificate and its key in this folder. They are made if there are
    none, and made anew if the certificate has expired or does not belong to the key. Raises
    OSError.
    """
    files = folder / f"{NAME}.crt", folder / f"{NAME}.key"
    if all(file.exists() for file in files) and _is_reusable(*files, now):
        return files
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    certificate, key = make_pair(bind_address, now)
    # In this order, a certificate that can be kept has its key, even if this process is killed.
    _write_private(files[1], key)
    _write_private(files[0], certificate)
    return files


def _write_private(file: Path, content: bytes) -> None:
    """Writes a file that only its owner can read, all at once."""
    new = file.with_name(f".{file.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    new.replace(file)


def _is_reusable(certificate: Path, key: Path, now: datetime) -> bool:
    """True if a pair can be used again. Of a certificate by an authority, or one that cannot be
    read, only the dates count, because it may not be berth's.
    """
    try:
        read = x509.load_pem_x509_certificate(certificate.read_bytes())
    except ValueError:
        return True
    if read.not_valid_after_utc <= now:
        return False
    return read.issuer != read.subject or _belong_together(read, key.read_bytes())


def _belong_together(certificate: x509.Certificate, key: bytes) -> bool:
    try:
        public = serialization.load_pem_private_key(key, None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return public == certificate.public_key()


def _names(host: str, bind_address: str) -> Iterable[x509.GeneralName]:
    """Yields the names and addresses that clients may use for this server."""
    names: dict[str, None] = {"localhost": None}
    addresses: dict[IPv4Address | IPv6Address, None] = {ip_address(LOOPBACK): None}
    for text in (host, bind_address):
        try:
            addresses[ip_address(text)] = None
        except ValueError:
            if text.isascii():
                names[text] = None
    specified = (each for each in addresses if not each.is_unspecified)
    return [*map(x509.DNSName, names), *map(x509.IPAddress, specified)]
