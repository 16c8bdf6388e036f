"""The key that signs the tokens of service accounts: RSA, as kubeadm makes one.

It needs the package cryptography. To make a key takes a tenth of a second, so it is made when the
first token is signed.
"""

from __future__ import annotations

import base64
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from ...kubernetes.api.types.api_documents import Document

BITS, EXPONENT = 2048, 65537
FILE = "sa.key"


class RsaTokenKey:
    """A key that is kept in a file, if there is one. Raises OSError, and ValueError for a file that
    cannot be read, when it is first used.
    """

    algorithm = "RS256"

    def __init__(self, folder: Path | None = None) -> None:
        self._file = None if folder is None else folder / FILE
        self.is_signed = lru_cache(maxsize=1024)(self._is_signed)

    @cached_property
    def key_id(self) -> str:
        """The name of the key, which Kubernetes derives from its public part."""
        form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        return _base64(sha256(self._key.public_key().public_bytes(*form)).digest())

    def sign(self, text: bytes) -> bytes:
        return self._key.sign(text, padding.PKCS1v15(), hashes.SHA256())

    def _is_signed(self, text: bytes, signature: bytes) -> bool:
        try:
            public = self._key.public_key()
            public.verify(signature, text, padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            return False
        return True

    def public_keys(self) -> list[Document]:
        """Returns the public key as a JSON Web Key."""
        numbers = self._key.public_key().public_numbers()
        named = {"use": "sig", "kty": "RSA", "kid": self.key_id, "alg": self.algorithm}
        return [{**named, "n": _number(numbers.n), "e": _number(numbers.e)}]

    @cached_property
    def _key(self) -> rsa.RSAPrivateKey:
        if self._file is None:
            return rsa.generate_private_key(EXPONENT, BITS)
        if self._file.exists():
            key = serialization.load_pem_private_key(self._file.read_bytes(), None)
            if not isinstance(key, rsa.RSAPrivateKey):
                raise ValueError(f"{self._file}: expected an RSA key")
            return key
        key = rsa.generate_private_key(EXPONENT, BITS)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.touch(mode=0o600)
        self._file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        return key


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
