"""A client trusts the same servers as Kubernetes' own client, with every version of Python."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from berth.actors.client.tls import client_context, show_certificate
from tests.kit.cases import texts
from tests.kit.certificates import Authority

HOST = "h.example"
NAMED = f"subjectAltName=DNS:{HOST}"
CA, NO_CA = "basicConstraints=CA:TRUE", "basicConstraints=CA:FALSE"
SHORT = ("rsa:1024",)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    odd_authority = Authority(tmp_path_factory.mktemp("odd"))
    odd_authority.sign("plain", NAMED)
    odd_authority.sign("wild", "subjectAltName=DNS:*.h.example")
    odd_authority.sign("address", "subjectAltName=IP:127.0.0.1,IP:::1")
    odd_authority.sign("address-as-name", "subjectAltName=DNS:127.0.0.1", common_name="127.0.0.1")
    odd_authority.sign("common-name", NO_CA, common_name=HOST)
    odd_authority.sign("for-clients", NAMED, "extendedKeyUsage=clientAuth")
    odd_authority.sign(
        "for-servers", NAMED, "extendedKeyUsage=clientAuth,serverAuth", "keyUsage=digitalSignature"
    )
    odd_authority.sign("past", NAMED, days=("20200101", "20200103"))
    odd_authority.sign("future", NAMED, days=("20900101", "20900103"))
    odd_authority.sign("sha1", NAMED, digest="sha1")
    odd_authority.sign("short", NAMED, key=SHORT)
    odd_authority.sign("shorter", NAMED, key=("rsa:512",))
    odd_authority.sign("intermediate", CA)
    odd_authority.sign("below", NAMED, by="intermediate")
    odd_authority.sign("no-authority", NO_CA)
    odd_authority.sign("below-none", NAMED, by="no-authority")
    odd_authority.sign("constrained", CA, "nameConstraints=permitted;DNS:other.example")
    odd_authority.sign("outside", NAMED, by="constrained")
    odd_authority.sign("inside", "subjectAltName=DNS:a.other.example", by="constrained")
    odd_authority.sign_itself("short-ca", key=SHORT)
    odd_authority.sign("by-short", NAMED, by="short-ca")
    odd_authority.sign_itself("sha1-ca", digest="sha1")
    odd_authority.sign("by-sha1", NAMED, by="sha1-ca")
    odd_authority.sign_itself("signs-no-certificates", "keyUsage=digitalSignature")
    odd_authority.sign("by-no-signer", NAMED, by="signs-no-certificates")
    odd_authority.sign_itself("itself", NAMED, NO_CA)
    odd_authority.sign_itself("other-ca")
    return odd_authority


def greet(client: ssl.SSLContext, server: ssl.SSLContext, name: str = HOST) -> ssl.SSLObject:
    """Makes a handshake in memory. Returns the client's side. Raises SSLError."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(back, there, server_hostname=name)
    serving = server.wrap_bio(there, back, server_side=True)
    waiting = [asking, serving]
    for side in (asking, serving) * 5:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        if side in waiting:
            waiting.remove(side)
    assert not waiting
    return asking


def server(authority: Authority, *names: str) -> ssl.SSLContext:
    """Returns the context of a server with these certificates, which accepts any client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    chain = authority.folder / "chain"
    chain.write_text("".join(authority.text(f"{name}.crt") for name in names))
    context.load_cert_chain(chain, authority.path(f"{names[0]}.key"))
    return context


def trusting(authority: Authority, name: str = "ca") -> ssl.SSLContext:
    return client_context(authority.text(f"{name}.crt").encode())


@pytest.mark.parametrize(
    ("shown", "trusted", "host"),
    [
        pytest.param(["plain"], "ca", HOST, id="an authority without key usage and identifiers"),
        pytest.param(["plain"], "ca", HOST.upper(), id="capital letters"),
        pytest.param(["wild"], "ca", "a.h.example", id="a wildcard"),
        pytest.param(["address"], "ca", "127.0.0.1", id="an address"),
        pytest.param(["address"], "ca", "::1", id="an address of IPv6"),
        pytest.param(["for-servers"], "ca", HOST, id="a usage"),
        pytest.param(["below", "intermediate"], "ca", HOST, id="an intermediate"),
        pytest.param(["below"], "intermediate", HOST, id="only the intermediate is trusted"),
        pytest.param(["plain"], "plain", HOST, id="only the certificate itself is trusted"),
        pytest.param(["itself"], "itself", HOST, id="signed by itself"),
        pytest.param(["inside", "constrained"], "ca", "a.other.example", id="within constraints"),
        pytest.param(["short"], "ca", HOST, id="a key of 1024 bits"),
        pytest.param(["by-short"], "short-ca", HOST, id="an authority's key of 1024 bits"),
        pytest.param(["by-sha1"], "sha1-ca", HOST, id="an authority that signed itself with SHA-1"),
    ],
)
def test_certificates_that_are_trusted(
    odd: Authority, shown: list[str], trusted: str, host: str
) -> None:
    greet(trusting(odd, trusted), server(odd, *shown), host)


OLD_OPENSSL = pytest.mark.skipif(
    ssl.OPENSSL_VERSION_INFO < (3,), reason="this OpenSSL lets SHA-1 through"
)


UNTRUSTED = texts("""
another authority => plain => other-ca => h.example => unable to get local issuer
a missing intermediate => below => ca => h.example => unable to get local issuer
signed by a certificate that is no authority => below-none no-authority => ca => h.example =>
    invalid CA
signed by a trusted certificate that is no authority => below-none => no-authority => h.example =>
    invalid CA
no signer => by-no-signer => signs-no-certificates => h.example => invalid CA|key usage
another name => plain => ca => a.h.example => Hostname mismatch
a wildcard is for one label => wild => ca => a.b.h.example => Hostname mismatch
a common name alone => common-name => ca => h.example => Hostname mismatch
trusted itself, for another name => itself => itself => a.example => Hostname mismatch
another address => address => ca => 127.0.0.2 => IP address mismatch
an address as a name => address-as-name => ca => 127.0.0.1 => IP address mismatch
an address that is not in the certificate => plain => ca => 127.0.0.1 => IP address mismatch
for clients only => for-clients => ca => h.example => unsuitable certificate purpose
expired => past => ca => h.example => has expired
not yet valid => future => ca => h.example => not yet valid
trusted itself, but expired => past => past => h.example => has expired
outside of constraints => outside constrained => ca => h.example => permitted subtree
""")


@pytest.mark.parametrize(
    ("shown", "trusted", "host", "why"),
    [
        *(pytest.param(*cells, id=name) for name, *cells in UNTRUSTED),
        pytest.param(
            "sha1", "ca", HOST, "digest algorithm too weak", id="SHA-1", marks=OLD_OPENSSL
        ),
    ],
)
def test_certificates_that_are_not_trusted(
    odd: Authority, shown: str, trusted: str, host: str, why: str
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=why):
        greet(trusting(odd, trusted), server(odd, *shown.split()), host)


def test_a_key_that_is_too_short_is_refused(odd: Authority) -> None:
    with pytest.raises(ssl.SSLError):
        greet(trusting(odd), server(odd, "shorter"))


@pytest.mark.parametrize("name", ["past", "common-name", "sha1", "itself", "for-clients"])
def test_an_insecure_client_trusts_any_certificate(odd: Authority, name: str) -> None:
    greet(client_context(None, insecure=True), server(odd, name), "elsewhere.example")


def test_the_machines_authorities_are_trusted_if_none_is_named(
    odd: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", odd.path("ca.crt"))
    greet(client_context(None), server(odd, "plain"))
    with pytest.raises(ssl.SSLCertVerificationError):
        greet(client_context(odd.text("other-ca.crt").encode()), server(odd, "plain"))


def test_tls_is_of_version_1_2_or_later(odd: Authority) -> None:
    current = server(odd, "plain")
    current.maximum_version = ssl.TLSVersion.TLSv1_2
    assert greet(trusting(odd), current).version() == "TLSv1.2"
    old = server(odd, "plain")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError, match=r"UNSUPPORTED_PROTOCOL|PROTOCOL_VERSION"):
        greet(trusting(odd), old)


@pytest.mark.parametrize("cipher", ["ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-CHACHA20-POLY1305"])
def test_the_ciphers_are_those_of_kubernetes(odd: Authority, cipher: str) -> None:
    picky = server(odd, "plain")
    picky.maximum_version = ssl.TLSVersion.TLSv1_2
    picky.set_ciphers(f"{cipher}:@SECLEVEL=0")
    chosen = greet(trusting(odd), picky).cipher()
    assert chosen is not None
    assert chosen[0] == cipher


@pytest.mark.parametrize(
    "cipher", ["AES128-GCM-SHA256", "DHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-SHA256"]
)
def test_other_ciphers_are_not_offered(odd: Authority, cipher: str) -> None:
    offered = {cipher["name"] for cipher in trusting(odd).get_ciphers()}
    assert cipher not in offered
    assert not [
        name for name in offered if "NULL" in name or "anon" in name.lower() or "PSK" in name
    ]


def test_the_certificates_of_an_authority_may_be_among_other_text(odd: Authority) -> None:
    """As in Kubernetes' client, an unreadable certificate is skipped if another can be read."""
    text = odd.text("ca.crt").encode()
    broken = b"-----BEGIN CERTIFICATE-----\nTm90IG9uZQ==\n-----END CERTIFICATE-----\n"
    for around in (
        b"",
        "# Autorité de l'amas\n".encode(),
        "# Autorité\n".encode("latin-1"),
        broken,
        b"\xef\xbb\xbf",
    ):
        greet(client_context(around + text + around), server(odd, "plain"))
    greet(client_context(odd.text("other-ca.crt").encode() + text), server(odd, "plain"))
    for nothing in (b"", b" \n", b"ca", b"\xff", broken, odd.text("ca.key").encode()):
        with pytest.raises(ValueError, match="expected certificates in PEM"):
            client_context(nothing)


def test_a_client_certificate_may_have_a_short_key(odd: Authority, tmp_path: Path) -> None:
    context = trusting(odd)
    show_certificate(context, odd.text("short.crt").encode(), odd.text("short.key").encode())
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    asking.set_ciphers("ALL:@SECLEVEL=0")
    asking.load_cert_chain(odd.path("plain.crt"), odd.path("plain.key"))
    asking.load_verify_locations(odd.path("ca.crt"))
    asking.verify_mode = ssl.CERT_REQUIRED
    greet(context, asking)
