"""What a client is told of an object that is taken as it is."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator

from .fields import Document

_PEM = b"-----BEGIN "


def secret_warnings(secret: Document) -> Iterator[str]:
    """Warns of a TLS secret without a certificate or without a key."""
    if secret.get("type") != "kubernetes.io/tls":
        return
    data = secret.get("data") or {}
    for key, what in (("tls.crt", "certificate"), ("tls.key", "key")):
        if _PEM not in b64decode(data.get(key) or ""):
            yield f"tls: failed to find any PEM data in {what} input"
            return


def service_warnings(service: Document) -> Iterator[str]:
    spec = service.get("spec") or {}
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


# By kind: what a write of an object is warned of.
WRITE_WARNINGS: dict[str, Callable[[Document], Iterator[str]]] = {
    "Secret": secret_warnings,
    "Service": service_warnings,
}
