"""TLS contexts from PEM text: whom we trust, and our own certificate. Both raise ValueError in words for people."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path


def server_context(authority: bytes | None, *, insecure: bool = False) -> ssl.SSLContext:
    """Trusts the certificates in `authority`, or the machine's own if it is None; `insecure` trusts anybody."""
    if authority is None:
        context = ssl.create_default_context()
    else:
        try:
            # An empty text would silently stand for the machine's own trust.
            context = ssl.create_default_context(cadata=authority.decode("ascii").strip() or "nothing")
        except (ssl.SSLError, ValueError):
            raise ValueError("expected certificates in PEM") from None
    # Python 3.13 asks for extensions that many a cluster's own authority does not have; Kubernetes' clients do not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def show_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Make `context` prove who we are. OpenSSL reads files only, so the key lies in a private one for that moment."""
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
