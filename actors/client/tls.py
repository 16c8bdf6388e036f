"""TLS contexts from PEM text: the trusted authorities, and the client's own certificate.

Both functions raise ValueError with a readable message. A server's certificate is accepted if
Kubernetes' own client, written in Go, accepts it. Python's defaults are not used, as they have
changed between versions and are meant for the Web. OpenSSL remains stricter in two respects that
cannot be configured. It rejects a certificate whose key usage or extended key usage does not
include serving, even if the extended key usage is "any"; and it rejects a wildcard for all names of
a top-level domain.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The ciphers of TLS 1.2 that Go offers. Security level 1 requires keys of 1024 bits, as Go does,
# and rejects signatures with SHA-1.
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES+SHA1:@SECLEVEL=1"
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def client_context(authority: bytes | None, *, insecure: bool = False) -> ssl.SSLContext:
    """Returns the TLS context of a client.

    It trusts the certificates in `authority`, of authorities or of servers; or, if that is None,
    the authorities that the machine trusts. If `insecure`, it trusts every server.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    # Not VERIFY_X509_STRICT, which requires extensions that many clusters' own authorities lack.
    context.verify_flags = ssl.VERIFY_X509_TRUSTED_FIRST | ssl.VERIFY_X509_PARTIAL_CHAIN
    context.hostname_checks_common_name = False
    if authority is None:
        context.load_default_certs()
    else:
        _trust(context, authority)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _trust(context: ssl.SSLContext, authority: bytes) -> None:
    """Trusts the certificates in PEM text; ignores other text and unreadable certificates.

    Raises ValueError if it finds no certificate that can be read.
    """
    read = 0
    for certificate in _CERTIFICATE.findall(authority):
        try:
            context.load_verify_locations(cadata=certificate.decode("ascii"))
        except (ssl.SSLError, ValueError):
            continue
        read += 1
    if not read:
        raise ValueError("expected certificates in PEM")


def show_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Makes `context` present a certificate. OpenSSL only reads files, so it is given one."""
    with _private_file(certificate.rstrip() + b"\n" + key) as name:
        try:
            # Without a password, OpenSSL would prompt for one on the terminal.
            context.load_cert_chain(name, password="")
        except (ssl.SSLError, ValueError) as problem:
            if isinstance(problem, ssl.SSLError) and problem.reason == "KEY_VALUES_MISMATCH":
                raise ValueError("expected the key of the certificate, got another key") from None
            raise ValueError(
                "expected a certificate and its unencrypted private key in PEM"
            ) from None


@contextmanager
def _private_file(content: bytes) -> Iterator[str]:
    """Yields the path of a file that only this process can read: in memory where the kernel can,
    as a container may have nowhere to write, and otherwise in the folder for temporary files.
    """
    in_memory = hasattr(os, "memfd_create")
    if in_memory:
        handle = os.memfd_create("certificate")
        name = f"/proc/self/fd/{handle}"
    else:
        handle, name = tempfile.mkstemp()
    with os.fdopen(handle, "wb") as file:
        try:
            file.write(content)
            file.flush()
            yield name
        finally:
            if not in_memory:
                Path(name).unlink()
