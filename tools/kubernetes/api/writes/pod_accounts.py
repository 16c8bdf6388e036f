"""The service account of a new pod, and the volume with its token.

Mirrors the admission plugin ServiceAccount. A pod takes no more memory than its own few fields: the
volume is one object for all pods of an account, and the containers with its mount one for all pods
of a template.
"""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

from ..store import Store
from ..time_and_chance import ALPHABET
from ..types.api_documents import Document, RefusedError
from .namespace_objects import ACCOUNTS, DEFAULT_ACCOUNT, ROOT_CERTIFICATE

MIRROR = "kubernetes.io/config.mirror"  # the annotation of a pod that a kubelet has from a file
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
PREFIX = "kube-api-access-"
TOKEN_SECONDS = 3607
MOST_TEMPLATES = 512  # whose specs with the mount are kept
_SOURCES = [
    {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
    {
        "configMap": {
            "name": ROOT_CERTIFICATE,
            "items": [{"key": "ca.crt", "path": "ca.crt"}],
        }
    },
    {
        "downwardAPI": {
            "items": [
                {
                    "path": "namespace",
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                }
            ]
        }
    },
]
_CHANGE_PODS = {"automountServiceAccountToken", "imagePullSecrets"}  # fields of an account
# By the identity of a spec and the uid of the account: the spec, and that with the mount. The specs
# of pods of one template are one object (see normal_form).
_MOUNTED: dict[tuple[int, str], tuple[Document, Document]] = {}


def with_account(store: Store, pod: Document) -> Document:
    """Returns a new pod with the name of its service account, which is `default` by default, and
    with the token of the account in each container, unless the pod or the account declines it.

    Raises RefusedError with 403 if there is no such account.
    """
    spec, metadata = pod["spec"], pod["metadata"]
    if MIRROR in (metadata.get("annotations") or ()):
        _check_mirror(pod)
        return pod
    namespace, name = metadata["namespace"], spec.get("serviceAccountName") or DEFAULT_ACCOUNT
    account = store.find(ACCOUNTS, namespace, name)
    if account is None:
        missing = f'serviceaccount "{name}" not found'
        raise _forbidden(pod, f"error looking up service account {namespace}/{name}: {missing}")
    if account.keys() & _CHANGE_PODS:
        return {**pod, "spec": _spec_of(spec, account)}
    key = id(spec), account["metadata"]["uid"]
    known = _MOUNTED.get(key)
    if known is None:
        if len(_MOUNTED) >= MOST_TEMPLATES:
            _MOUNTED.clear()
        known = _MOUNTED[key] = spec, _spec_of(spec, account)
    return {**pod, "spec": known[1]}


def _spec_of(spec: Document, account: Document) -> Document:
    """Returns the spec of a pod that has this account."""
    metadata, name = account["metadata"], account["metadata"]["name"]
    full = {**spec, "serviceAccount": name, "serviceAccountName": name}
    mounts = spec.get("automountServiceAccountToken")
    if account.get("automountServiceAccountToken", True) if mounts is None else mounts:
        _mount(full, metadata["uid"])
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        full["imagePullSecrets"] = account["imagePullSecrets"]
    return full


def _name(volume: Document) -> str:
    return volume.get("name") or ""


def _mount(spec: Document, uid: str) -> None:
    """Mounts the token in each container that has nothing in its place."""
    volumes = spec.get("volumes") or []
    present = next((name for name in map(_name, volumes) if name.startswith(PREFIX)), "")
    volume, mount = _volume_and_mount(present or PREFIX + _suffix(uid))
    needed = False
    for field in ("initContainers", "containers"):
        containers = spec.get(field)
        if containers:
            spec[field] = [_with_mount(each, mount) for each in containers]
            needed = needed or any(a is not b for a, b in zip(spec[field], containers, strict=True))
    if needed and not present:
        spec["volumes"] = [*volumes, volume]


def _with_mount(container: Document, mount: Document) -> Document:
    mounts = container.get("volumeMounts") or []
    if any(each.get("mountPath") == MOUNT_PATH for each in mounts):
        return container
    return {**container, "volumeMounts": [*mounts, mount]}


@lru_cache(maxsize=1024)
def _volume_and_mount(name: str) -> tuple[Document, Document]:
    volume = {"name": name, "projected": {"sources": _SOURCES, "defaultMode": 0o644}}
    return volume, {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}


@lru_cache(maxsize=1024)
def _suffix(uid: str) -> str:
    """Returns five characters as of a generated name, the same for all pods of an account."""
    number, characters = crc32(uid.encode()), ""
    for _ in range(5):
        number, at = divmod(number, len(ALPHABET))
        characters += ALPHABET[at]
    return characters


def _check_mirror(pod: Document) -> None:
    """Raises RefusedError with 403 if a mirror pod refers to an account, or to its token."""
    spec = pod["spec"]
    if spec.get("serviceAccountName"):
        raise _forbidden(pod, "a mirror pod may not reference service accounts")
    for volume in spec.get("volumes") or ():
        if "secret" in volume:
            raise _forbidden(pod, "a mirror pod may not reference secrets")
        for source in (volume.get("projected") or {}).get("sources") or ():
            if "serviceAccountToken" in source:
                why = "a mirror pod may not use ServiceAccountToken volume projections"
                raise _forbidden(pod, why)


def _forbidden(pod: Document, why: str) -> RefusedError:
    name = pod["metadata"].get("name", "")
    details = {"name": name, "kind": "pods"}
    return RefusedError(403, "Forbidden", f'pods "{name}" is forbidden: {why}', details)
