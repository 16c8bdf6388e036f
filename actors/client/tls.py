"""TLS contexts from PEM text: whom we trust, and our own certificate. Both raise ValueError in
words for people.

A server is believed where Kubernetes' own client, which is Go's, believes it, whatever Python's
defaults are: they have changed between its versions, and are made for the Web. Where OpenSSL cannot
be told, it is the stricter one: it refuses a server's certificate whose key usage or extended key
usage names other things than serving, although the extended one says "any", and a wildcard for all
names of a top-level domain.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from pathlib import Path

# Of TLS 1.2 those that Go offers. Level 1 asks for keys of 1024 bits, as Go does, and refuses
# signatures with SHA-1.
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES+SHA1:@SECLEVEL=1"
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def client_context(authority: bytes | None, *, insecure: bool = False) -> ssl.SSLContext:
    """The context of every client here. It trusts the certificates in `authority`, be they
    authorities' or servers', or what the machine trusts if it is None; `insecure` trusts anybody.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    # Not VERIFY_X509_STRICT: it asks for extensions that many a cluster's own authority does not
    # have.
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
    """Text around the certificates is passed over, and so is a certificate that cannot be read,
    unless all are.
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
    """Make `context` prove who we are. OpenSSL reads files only, so the key lies in a private one
    for that moment.
    """
    handle, name = tempfile.mkstemp()  # readable by its owner alone
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(certificate.rstrip() + b"\n" + key)
        # Without a password at hand OpenSSL would ask for one on the terminal.
        context.load_cert_chain(name, password="")
    except (ssl.SSLError, ValueError) as problem:
        if isinstance(problem, ssl.SSLError) and problem.reason == "KEY_VALUES_MISMATCH":
            raise ValueError("expected the key of the certificate, got another one") from None
        raise ValueError("expected a certificate and its unencrypted private key in PEM") from None
    finally:
        Path(name).unlink()
