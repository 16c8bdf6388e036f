"""The objects that every cluster starts with."""

from __future__ import annotations

from collections.abc import Iterator

from ..access.first_roles import FIRST_ROLES, roles_of_components
from ..store import Store
from ..types.api_documents import Document
from ..types.resources import BY_KIND, Kind
from .admission import NAMESPACES, PRIORITY_CLASSES
from .namespace_objects import CONFIG_MAPS, ROOT_CERTIFICATE

FIRST_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_CLASSES = (
    ("system-cluster-critical", 2000000000, "For pods that the cluster needs, on any node."),
    ("system-node-critical", 2000001000, "For pods that their node needs."),
)
_SERVICES = BY_KIND["v1", "Service"]
_AUTHENTICATION = "extension-apiserver-authentication"
# The API server's own Service.
_SERVICE: Document = {
    "metadata": {
        "name": "kubernetes",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
    },
    "spec": {
        "clusterIP": "10.96.0.1",
        "ports": [{"name": "https", "port": 443, "targetPort": 6443}],
    },
}
FIRST_OBJECTS: tuple[tuple[Kind, str, Document], ...] = (
    *((NAMESPACES, "", {"metadata": {"name": name}}) for name in FIRST_NAMESPACES),
    *(
        (PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value, "description": why})
        for name, value, why in _CLASSES
    ),
    (_SERVICES, "default", _SERVICE),
    *FIRST_ROLES,
)


def first_objects(store: Store) -> Iterator[tuple[Kind, str, Document]]:
    """Yields the kind, the namespace and the document of each object, in the order in which they
    are created.
    """
    yield from FIRST_OBJECTS
    yield CONFIG_MAPS, "kube-system", _authentication(store.root_certificate)
    yield CONFIG_MAPS, "kube-system", _tracked_since(store.outside.now())
    if store.secure:
        yield from roles_of_components()


def renew_certificates(store: Store) -> None:
    """Brings the stored ConfigMaps with the certificate of an earlier authority up to date."""
    certificate = store.root_certificate
    if not certificate:
        return
    held = {
        ROOT_CERTIFICATE: {"ca.crt": certificate},
        _AUTHENTICATION: _authentication(certificate)["data"],
    }
    for stored in list(store.list(CONFIG_MAPS)):
        document = stored.document
        data = document.get("data") or {}
        new = data | held.get(document["metadata"]["name"], {})
        if new != data:
            store.update(CONFIG_MAPS, {**document, "data": new})


def _tracked_since(now: str) -> Document:
    """Returns the ConfigMap that says since when the use of tokens in Secrets is tracked, which
    kube-controller-manager reads before it cleans them up.
    """
    day = now.partition("T")[0]
    name = "kube-apiserver-legacy-service-account-token-tracking"
    return {"metadata": {"name": name}, "data": {"since": day}}


def _authentication(certificate: str) -> Document:
    """Returns the ConfigMap that names the authorities of client certificates that the server
    trusts, for servers that ask it who their clients are: none without TLS. A proxy before such a
    server would show a certificate of the same authority.
    """
    document: Document = {"metadata": {"name": _AUTHENTICATION}}
    if not certificate:
        return document
    data = {
        "client-ca-file": certificate,
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-client-ca-file": certificate,
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-username-headers": '["X-Remote-User"]',
    }
    return document | {"data": data}
