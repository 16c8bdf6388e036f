"""The server's TLS contexts, one for each of its certificates, made anew when a file or the
authorities of clients change.

A client may show a certificate. Go's servers accept any, and judge it with the request. OpenSSL
refuses, in the handshake, a certificate that no authority of clients has signed, and Python cannot
change that. Sessions are not resumed by tickets, because a resumed session has no certificates.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.x509.oid import NameOID

from berth.config.options import SecureServing

from ..client.tls import CIPHERS, show_certificate
from ..scheduling.framework.logger import get_logger
from .go_names import cipher_suites, version
from .regular_file import content, stamp
from .self_signed import keep_pair, make_pair

log = get_logger(__name__)


class ServingError(ValueError):
    """The server cannot be set up: a flag or a file cannot be used. The message is one line."""


class _Pair(NamedTuple):
    """PEM files, and the names that they serve; by default, the names in the certificate."""

    certificate: Path
    key: Path
    names: tuple[str, ...] = ()


class _Sites:
    """The contexts by the server name that a client sends."""

    def __init__(self, default: ssl.SSLContext) -> None:
        self.default = default
        self.by_flag: dict[str, ssl.SSLContext] = {}
        self.by_certificate: dict[str, ssl.SSLContext] = {}

    def of(self, name: str | None) -> ssl.SSLContext:
        """Returns the context for a name. As in Go, a full name takes precedence over a wildcard,
        and names in a flag over names in a certificate.
        """
        if not name:
            return self.default
        name = name.lower().rstrip(".")
        wildcard = f"*.{name.partition('.')[2]}"
        for key in (name, wildcard):
            for contexts in (self.by_flag, self.by_certificate):
                if key in contexts:
                    return contexts[key]
        return self.default


class ServingContexts:
    """The TLS contexts of the server. `authorities` returns the certificates of the authorities of
    clients, in DER. Without any, clients are not asked for a certificate.
    """

    def __init__(
        self, serving: SecureServing, authorities: Callable[[], Sequence[bytes]] = tuple
    ) -> None:
        """Reads the files. Raises ServingError, or OSError for a file."""
        self._authorities = authorities
        try:
            self._version = version(serving.tls_min_version)
            self._ciphers = _ciphers(serving.tls_cipher_suites)
        except ValueError as problem:
            raise ServingError(str(problem)) from None
        if serving.tls_cipher_suites and not self._ciphers:
            self._version = ssl.TLSVersion.TLSv1_3
        self._own: tuple[bytes, bytes] | None = None
        self._files = self._of_process(serving)
        self._others = [
            _Pair(Path(each.cert_file), Path(each.key_file), each.names)
            for each in serving.tls_sni_cert_key
        ]
        self._seen = self._state()
        self._sites = self._load()

    def current(self, address: str) -> ssl.SSLContext:
        """Returns the context for a connection to this address of the machine. Looks at the files;
        if new ones cannot be used, logs that once and keeps the old contexts.
        """
        seen = self._state()
        if seen != self._seen:
            self._seen = seen
            try:
                self._sites = self._load()
            except (OSError, ServingError) as problem:
                log.warning("new certificates are not used", error=str(problem))
            else:
                log.info("certificates changed")
        return self._sites.of(address)

    def _of_process(self, serving: SecureServing) -> _Pair | None:
        """Returns the files of the certificate; None if it is made in memory."""
        certificate, key = serving.tls_cert_file, serving.tls_private_key_file
        if certificate or key:
            if not (certificate and key):
                raise ServingError(
                    "--tls-cert-file and --tls-private-key-file: expected both, got only one"
                )
            return _Pair(Path(certificate), Path(key))
        now = datetime.now(UTC)
        if serving.cert_dir:
            return _Pair(*keep_pair(Path(serving.cert_dir), serving.bind_address, now))
        self._own = make_pair(serving.bind_address, now)
        return None

    def _state(self) -> tuple[object, ...]:
        pairs = [*self._others, *([self._files] if self._files else [])]
        files = [stamp(file) for pair in pairs for file in (pair.certificate, pair.key)]
        return (*files, tuple(self._authorities()))

    def _load(self) -> _Sites:
        if self._files is not None:
            sites = _Sites(self._context(*_read(self._files)))
        else:
            assert self._own is not None
            sites = _Sites(self._context(*self._own))
        for pair in self._others:
            certificate, key = _read(pair)
            context = self._context(certificate, key, str(pair.certificate))
            for name in pair.names:
                sites.by_flag.setdefault(name.lower(), context)
            if not pair.names:
                for name in _names(certificate):
                    sites.by_certificate.setdefault(name.lower(), context)
        if self._others:
            self._choose_by_name(sites)
        return sites

    @staticmethod
    def _choose_by_name(sites: _Sites) -> None:
        def chosen(
            connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext
        ) -> None:
            if name and sites.of(name) is not context:
                connection.context = sites.of(name)

        for context in {sites.default, *sites.by_flag.values()}:
            context.sni_callback = chosen

    def _context(self, certificate: bytes, key: bytes, where: str = "") -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._version
        old = self._version < ssl.TLSVersion.TLSv1_2
        if self._ciphers:
            context.set_ciphers(":".join([*self._ciphers, f"@SECLEVEL={0 if old else 1}"]))
        else:
            context.set_ciphers(CIPHERS.replace("SECLEVEL=1", "SECLEVEL=0") if old else CIPHERS)
        context.set_alpn_protocols(["http/1.1"])
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0
        try:
            show_certificate(context, certificate, key)
        except ValueError as problem:
            where = where or (str(self._files.certificate) if self._files else "")
            raise ServingError(f"{where}: {problem}") from None
        for authority in self._authorities():
            with suppress(ssl.SSLError):  # without effect if OpenSSL cannot use it
                context.load_verify_locations(cadata=authority)
            context.verify_mode = ssl.CERT_OPTIONAL
        context.verify_flags = ssl.VERIFY_X509_TRUSTED_FIRST | ssl.VERIFY_X509_PARTIAL_CHAIN
        return context


def _ciphers(names: Sequence[str]) -> list[str]:
    """Returns OpenSSL's names of these suites. Raises ValueError for one that it does not have."""
    suites = cipher_suites(names)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name in suites:
        try:
            context.set_ciphers(f"{name}:@SECLEVEL=0")
        except ssl.SSLError:
            raise ValueError(
                f"--tls-cipher-suites: {ssl.OPENSSL_VERSION} does not have {name}"
            ) from None
    return suites


def _read(pair: _Pair) -> tuple[bytes, bytes]:
    return content(pair.certificate), content(pair.key)


def _names(pem: bytes) -> list[str]:
    """Returns the names and addresses in a certificate; its common name if there are none."""
    try:
        certificate = x509.load_pem_x509_certificates(pem)[0]
        alternatives = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
    except x509.ExtensionNotFound:
        named = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return [str(each.value) for each in named]
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return []  # OpenSSL can use it all the same
    addresses = alternatives.get_values_for_type(x509.IPAddress)
    return [*alternatives.get_values_for_type(x509.DNSName), *map(str, addresses)]
