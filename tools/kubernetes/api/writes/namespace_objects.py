"""The objects that every namespace has: the ServiceAccount `default` and the ConfigMap with the
certificate of the API server's authority.

In Kubernetes, two controllers of kube-controller-manager make them a moment after the namespace,
and again after each deletion. Here the server makes them in the same moment: so they are there
without controllers too, and nobody waits for them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..store import Store
from ..types.api_documents import Document
from ..types.resources import BY_KIND, Kind

DEFAULT_ACCOUNT, ROOT_CERTIFICATE = "default", "kube-root-ca.crt"
ACCOUNTS, CONFIG_MAPS = BY_KIND["v1", "ServiceAccount"], BY_KIND["v1", "ConfigMap"]
_NAMESPACES = BY_KIND["v1", "Namespace"]
EVERYWHERE = {ACCOUNTS: DEFAULT_ACCOUNT, CONFIG_MAPS: ROOT_CERTIFICATE}
_USE = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is "
    "guaranteed across distributions of Kubernetes clusters."
)


def missing_objects(store: Store, namespace: str) -> Iterator[tuple[Kind, Document]]:
    """Yields what a namespace lacks of these objects. One that ends, or is gone, lacks nothing."""
    there = store.find(_NAMESPACES, "", namespace)
    if there is None or "deletionTimestamp" in there["metadata"]:
        return
    if store.find(ACCOUNTS, namespace, DEFAULT_ACCOUNT) is None:
        yield ACCOUNTS, {"metadata": {"name": DEFAULT_ACCOUNT}}
    if store.find(CONFIG_MAPS, namespace, ROOT_CERTIFICATE) is None:
        metadata = {
            "name": ROOT_CERTIFICATE,
            "annotations": {"kubernetes.io/description": _USE},
        }
        yield CONFIG_MAPS, {"metadata": metadata, "data": {"ca.crt": store.root_certificate}}


def restore_certificate(store: Store, kind: Kind, document: Document) -> None:
    """Takes back what a write has changed in the data of the ConfigMap with the certificate."""
    if kind is CONFIG_MAPS and document["metadata"]["name"] == ROOT_CERTIFICATE:
        store.update(kind, {**document, "data": {"ca.crt": store.root_certificate}})


def is_of_every_namespace(kind: Kind, name: str) -> bool:
    """True for the kind and the name of one of these objects."""
    return EVERYWHERE.get(kind) == name
