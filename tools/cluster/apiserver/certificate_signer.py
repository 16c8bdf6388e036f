"""Certificate requests as Kubernetes' signers read them: which are approved without anybody, which
are refused, and what is signed.

Mirrors the approver and the signers of kube-controller-manager. Like the authority it needs the
package cryptography.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from ...kubernetes.api.types.api_documents import Document

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
LONGEST, SHORTEST = timedelta(days=365), timedelta(minutes=10)
BEFORE = timedelta(minutes=5)  # the clocks of clients may be late
SHORT = timedelta(hours=8)  # a certificate for less is not made to end earlier
_NODES, _NODE = "system:nodes", "system:node:"
# The usages of keys by the bits of a certificate that they set.
_KEY_USAGES = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
_BITS = tuple(dict.fromkeys(_KEY_USAGES.values()))
_EXTENDED = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "ipsec end system": ObjectIdentifier("1.3.6.1.5.5.7.3.5"),
    "ipsec tunnel": ObjectIdentifier("1.3.6.1.5.5.7.3.6"),
    "ipsec user": ObjectIdentifier("1.3.6.1.5.5.7.3.7"),
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
    "microsoft sgc": ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"),
    "netscape sgc": ObjectIdentifier("2.16.840.1.113730.4.1"),
}


def parsed(request: Document) -> x509.CertificateSigningRequest:
    """Returns what a valid request object asks for."""
    pem = base64.b64decode(request["spec"]["request"])
    return x509.load_pem_x509_csr(pem[pem.find(b"-----BEGIN") :])


def refusal(request: Document) -> str | None:
    """Returns why a signer refuses a request; "" if it signs it, None if no signer is asked."""
    check = _CHECKS.get(request["spec"].get("signerName", ""))
    return None if check is None else check(parsed(request), request["spec"].get("usages") or ())


def approval_rights(request: Document) -> Sequence[tuple[str, str]]:
    """Returns the rights, each with its message, of which one lets the user of a request have it
    approved at once; none for most requests.
    """
    spec = request["spec"]
    if spec.get("signerName") != KUBELET_CLIENT or refusal(request) != "":
        return ()
    after = "kubelet client certificate after SubjectAccessReview."
    rights = [("nodeclient", f"Auto approving {after}")]
    if spec.get("username") == _common_name(parsed(request)):
        rights.insert(0, ("selfnodeclient", f"Auto approving self {after}"))
    return rights


def signed(request: Document, issue: Callable[..., str], now: datetime) -> str:
    """Returns the certificate that an authority issues, in base64."""
    spec, asked = request["spec"], parsed(request)
    lasts = LONGEST
    if (seconds := spec.get("expirationSeconds")) is not None:
        lasts = min(max(timedelta(seconds=seconds), SHORTEST), LONGEST)
    end = now + lasts - (timedelta() if lasts < SHORT else BEFORE)
    names = asked.extensions
    extensions: list[tuple[x509.ExtensionType, bool]] = list(_usages(spec.get("usages") or ()))
    try:
        wanted = names.get_extension_for_class(x509.SubjectAlternativeName)
        extensions.append((wanted.value, wanted.critical))
    except x509.ExtensionNotFound:
        pass
    pem = issue(asked.subject, asked.public_key(), extensions, now - BEFORE, end)
    return base64.b64encode(pem.encode()).decode()


def _usages(usages: Iterable[str]) -> Iterable[tuple[x509.ExtensionType, bool]]:
    bits = {_KEY_USAGES[usage] for usage in usages if usage in _KEY_USAGES}
    if bits:
        if not bits & {"key_agreement"}:
            bits -= {"encipher_only", "decipher_only"}
        yield x509.KeyUsage(**{bit: bit in bits for bit in _BITS}), True
    purposes = dict.fromkeys(_EXTENDED[usage] for usage in usages if usage in _EXTENDED)
    if purposes:
        yield x509.ExtendedKeyUsage(list(purposes)), False


def _common_name(asked: x509.CertificateSigningRequest) -> str:
    names = asked.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def _organizations(asked: x509.CertificateSigningRequest) -> list[str]:
    return [
        str(each.value) for each in asked.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    ]


def _alternatives(asked: x509.CertificateSigningRequest) -> list[x509.GeneralName]:
    try:
        return list(asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def _of_client(_: x509.CertificateSigningRequest, usages: Sequence[str]) -> str:
    for usage in usages:
        if usage not in ("digital signature", "key encipherment", "client auth"):
            return f"invalid usage for client certificate: {usage}"
    if "client auth" not in usages:
        return "missing required usage for client certificate: client auth"
    return ""


def _of_kubelet(
    asked: x509.CertificateSigningRequest,
    usages: Sequence[str],
    purpose: str,
    allowed: tuple[type[x509.GeneralName], ...],
) -> str:
    if _organizations(asked) != [_NODES]:
        return "subject organization is not system:nodes"
    names = _alternatives(asked)
    if allowed and not any(isinstance(name, allowed) for name in names):
        return "DNS or IP subjectAltName is required"
    for name in names:
        if not isinstance(name, allowed):
            return f"{_NAMED.get(type(name), 'other')} subjectAltNames are not allowed"
    needed = {"digital signature", "key encipherment", purpose}
    wrong_usages = {*usages} not in (needed, needed - {"key encipherment"})
    if not _common_name(asked).startswith(_NODE):
        return "subject common name does not begin with system:node:"
    return f"usages did not match [{' '.join(sorted(needed))}]" if wrong_usages else ""


def _of_kubelet_client(asked: x509.CertificateSigningRequest, usages: Sequence[str]) -> str:
    return _of_kubelet(asked, usages, "client auth", ())


def _of_kubelet_server(asked: x509.CertificateSigningRequest, usages: Sequence[str]) -> str:
    return _of_kubelet(asked, usages, "server auth", (x509.DNSName, x509.IPAddress))


_NAMED: dict[type[x509.GeneralName], str] = {
    x509.DNSName: "DNS",
    x509.IPAddress: "IP",
    x509.RFC822Name: "Email",
    x509.UniformResourceIdentifier: "URI",
}
_CHECKS: dict[str, Callable[[x509.CertificateSigningRequest, Sequence[str]], str]] = {
    CLIENT: _of_client,
    KUBELET_CLIENT: _of_kubelet_client,
    KUBELET_SERVING: _of_kubelet_server,
}
