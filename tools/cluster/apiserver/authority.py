"""A certificate authority for one API server: its own certificate, and those that it issues.

It needs the package cryptography, which the light install lacks; so only what serves TLS imports
this module.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .kubeconfig import ClientIdentity

VALID = timedelta(days=365)
BEFORE = timedelta(hours=1)  # the clocks of clients may be late
CA_NAME, SERVER_NAME = "kubernetes", "kube-apiserver"
# What programs in and beside a cluster call the server.
NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
    "127.0.0.1",
    "::1",
    "10.96.0.1",
)
_FILES = ("ca.crt", "ca.key")


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate and its key, in PEM."""

    certificate: str
    key: str


class Authority:
    """An authority; with `pair` it goes on as that one. Clients trust `pair.certificate`."""

    def __init__(self, now: datetime, pair: KeyPair | None = None) -> None:
        self._now = now
        if pair is None:
            self._key = ec.generate_private_key(ec.SECP256R1())
            self._certificate = self._signed_by_itself()
        else:
            key = serialization.load_pem_private_key(pair.key.encode(), None)
            if not isinstance(key, ec.EllipticCurvePrivateKey):
                raise ValueError("the key of the authority: expected one of an elliptic curve")
            self._key = key
            self._certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
        self.pair = pair or KeyPair(_pem(self._certificate), _key_pem(self._key))

    @classmethod
    def kept_in(cls, folder: Path, now: datetime) -> Authority:
        """Returns the authority of a folder, which is made if there is none. Raises OSError, and
        ValueError for files that cannot be read.
        """
        certificate, key = (folder / name for name in _FILES)
        if certificate.exists() and key.exists():
            return cls(now, KeyPair(certificate.read_text(), key.read_text()))
        authority = cls(now)
        folder.mkdir(parents=True, exist_ok=True)
        key.touch(mode=0o600)
        key.write_text(authority.pair.key)
        certificate.write_text(authority.pair.certificate)
        return authority

    def server(self, names: Iterable[str] = ()) -> KeyPair:
        """Issues the certificate of the API server, which has these names too."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternative = x509.SubjectAlternativeName(list(_alternative_names((*NAMES, *names))))
        usage = ExtendedKeyUsageOID.SERVER_AUTH
        signed = self._issued(_subject(SERVER_NAME, ()), key.public_key(), usage, alternative)
        return KeyPair(_pem(signed), _key_pem(key))

    def client(self, user: str, groups: Sequence[str] = ()) -> ClientIdentity:
        """Issues the certificate of a user in these groups."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.CLIENT_AUTH
        signed = self._issued(_subject(user, groups), key.public_key(), usage)
        return ClientIdentity(self.pair.certificate, _pem(signed), _key_pem(key))

    def issue(
        self,
        subject: x509.Name,
        public: CertificatePublicKeyTypes,
        extensions: Iterable[tuple[x509.ExtensionType, bool]],
        start: datetime,
        end: datetime,
    ) -> str:
        """Issues a certificate of what somebody asked for. Each extension says whether it is
        critical.
        """
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._certificate.subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(min(end, self._certificate.not_valid_after_utc))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(issuer, critical=False)
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return _pem(builder.sign(self._key, hashes.SHA256()))

    def context(self, pair: KeyPair) -> ssl.SSLContext:
        """Returns the context of a server with this certificate, which asks clients for theirs."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self.pair.certificate)
        with TemporaryDirectory(prefix="berth-") as folder:
            files = Path(folder, "tls.crt"), Path(folder, "tls.key")
            files[0].write_text(pair.certificate)
            files[1].touch(mode=0o600)
            files[1].write_text(pair.key)
            context.load_cert_chain(*files)
        return context

    def _signed_by_itself(self) -> x509.Certificate:
        subject, public = _subject(CA_NAME, ()), self._key.public_key()
        return (
            self._builder(subject, subject, public)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_key_usage(signs=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def _issued(
        self,
        subject: x509.Name,
        public: CertificatePublicKeyTypes,
        usage: x509.ObjectIdentifier,
        alternative: x509.SubjectAlternativeName | None = None,
    ) -> x509.Certificate:
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            self._builder(subject, self._certificate.subject, public)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(issuer, critical=False)
        )
        if alternative is not None:
            builder = builder.add_extension(alternative, critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, public: CertificatePublicKeyTypes
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - BEFORE)
            .not_valid_after(self._now + VALID)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        )


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    """Returns what a key is for: TLS and, for an authority, to sign certificates."""
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=signs,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(user: str, groups: Sequence[str]) -> x509.Name:
    of_groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*of_groups, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _alternative_names(names: Iterable[str]) -> Iterator[x509.GeneralName]:
    for name in dict.fromkeys(names):
        try:
            yield x509.IPAddress(ip_address(name))
        except ValueError:
            yield x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
