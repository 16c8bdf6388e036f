"""What the controllers know of the cluster: the latest version of each object they follow.

Objects are indexed by kind, owner and node; those of storage also by claim, volume and class, pods
by their device claims, and these by the pools of their devices. Controllers read their own writes:
the server's answer to a write is stored at once, and news older than what is stored is dropped. So
a late watch never makes a controller do something twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

import msgspec

from .device_claims import claim_keys, pool_key, pools_of, template_keys
from .documents import Document, controller_of, name_of, namespace_of, owners_of, spec_of, uid_of
from .volumes import claim_reference, claimed_key, class_of, pod_claims, volume_of

REMEMBERED = 100_000
Key = tuple[str, str, str]
Fields = dict[str, Callable[[Document], Iterable[str]]]


def _on_node(document: Document) -> tuple[str, ...]:
    return (spec_of(document).get("nodeName") or "",)


# The fields by which objects are looked up, beside their names; "" finds those without it. "free"
# and "waiting" hold, by class, the volumes without a claim and the claims without a volume.
_INDEXED: dict[str, Fields] = {
    "Pod": {
        "node": _on_node,
        "claim": lambda pod: {f"{namespace_of(pod)}/{claim.name}" for claim in pod_claims(pod)},
        "device-claim": claim_keys,
        "claim-template": template_keys,
    },
    "VolumeAttachment": {"node": _on_node},
    "ResourceClaim": {"pool": pools_of},
    "ResourceSlice": {"pool": lambda found: (pool_key(spec_of(found)),)},
    "PersistentVolume": {
        "claim": lambda volume: (claimed_key(volume),),
        "class": lambda volume: (class_of(volume),),
        "free": lambda volume: () if claim_reference(volume) else (class_of(volume),),
    },
    "PersistentVolumeClaim": {
        "volume": lambda claim: (volume_of(claim),),
        "waiting": lambda claim: () if volume_of(claim) else (class_of(claim),),
    },
}


class Change(msgspec.Struct, frozen=True):
    """An object before and after; None if it did not exist or no longer does."""

    kind: str
    before: Document | None
    after: Document | None


class Cluster:
    """Keys are kind, namespace and name."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, dict[str, Document]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        self._dependents: dict[str, dict[Key, Document]] = defaultdict(dict)
        self._free: dict[tuple[str, str], dict[str, Document]] = defaultdict(dict)
        self._indexed: dict[tuple[str, str], dict[str, dict[Key, Document]]] = {
            (kind, field): defaultdict(dict)
            for kind, fields in _INDEXED.items()
            for field in fields
        }
        self._gone: dict[str, None] = {}

    def find(self, kind: str, namespace: str, name: str) -> Document | None:
        return self._objects[kind][namespace].get(name)

    def all(self, kind: str) -> Iterator[Document]:
        return (document for named in self._objects[kind].values() for document in named.values())

    def within(self, kind: str, namespace: str) -> list[Document]:
        return list(self._objects[kind][namespace].values())

    def candidates(self, kind: str, owner: Document) -> list[Document]:
        """The objects of a kind that an owner controls or could adopt."""
        mine = [
            document
            for key, document in self._dependents.get(uid_of(owner), {}).items()
            if key[0] == kind
        ]
        return [*mine, *self._free[kind, namespace_of(owner)].values()]

    def dependents(self, uid: str) -> list[Document]:
        return list(self._dependents.get(uid, {}).values())

    def by(self, kind: str, field: str, value: str) -> list[Document]:
        """The objects of a kind whose field, one of those indexed, has this value."""
        return list(self._indexed[kind, field].get(value, {}).values())

    def pods_on(self, node: str) -> list[Document]:
        return self.by("Pod", "node", node) if node else []

    def is_gone(self, uid: str) -> bool:
        """True if the object of this uid is known to have been deleted."""
        return uid in self._gone

    def put(self, document: Document) -> Change | None:
        """Stores an object. Returns None if the stored one is as new, or if it has been deleted."""
        kind, uid = document["kind"], uid_of(document)
        have = self.find(kind, namespace_of(document), name_of(document))
        if uid in self._gone or (have is not None and _version(document) <= _version(have)):
            return None
        if have is not None:
            self._forget(have, replaced=uid_of(have) == uid)
        key = _key(document)
        self._objects[kind][key[1]][key[2]] = document
        for owner in owners_of(document):
            self._dependents[owner["uid"]][key] = document
        if controller_of(document) is None:
            self._free[kind, key[1]][key[2]] = document
        for field, values in _INDEXED.get(kind, {}).items():
            for value in values(document):
                self._indexed[kind, field][value][key] = document
        return Change(kind, have, document)

    def remove(self, document: Document) -> Change | None:
        """Removes a deleted object. Returns None if it was not stored."""
        have = self.find(document["kind"], namespace_of(document), name_of(document))
        if have is None or uid_of(have) != uid_of(document):
            self._remember(uid_of(document))
            return None
        self._forget(have, replaced=False)
        return Change(have["kind"], have, None)

    def replace(self, kind: str, documents: Iterable[Document]) -> list[Change]:
        """Replaces all objects of a kind, after a list."""
        listed = {uid_of(document): document for document in documents}
        gone = [document for document in self.all(kind) if uid_of(document) not in listed]
        changes = [self.remove(document) for document in gone] + [
            self.put(document) for document in listed.values()
        ]
        return [change for change in changes if change is not None]

    def _forget(self, document: Document, *, replaced: bool) -> None:
        key = _key(document)
        del self._objects[key[0]][key[1]][key[2]]
        for owner in owners_of(document):
            _drop(self._dependents, owner["uid"], key)
        self._free[key[0], key[1]].pop(key[2], None)
        for field, values in _INDEXED.get(key[0], {}).items():
            for value in values(document):
                _drop(self._indexed[key[0], field], value, key)
        if not replaced:
            self._remember(uid_of(document))

    def _remember(self, uid: str) -> None:
        self._gone[uid] = None
        if len(self._gone) > REMEMBERED:
            del self._gone[next(iter(self._gone))]


def _key(document: Document) -> Key:
    return document["kind"], namespace_of(document), name_of(document)


def _version(document: Document) -> int:
    """Resource versions are increasing numbers, which Kubernetes guarantees by now."""
    return int(document["metadata"].get("resourceVersion") or 0)


def _drop(index: dict[str, dict[Key, Document]], field: str, key: Key) -> None:
    found = index.get(field)
    if found is not None:
        found.pop(key, None)
        if not found:
            del index[field]
