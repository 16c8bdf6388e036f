"""The cluster as the controllers see it: the latest version of each object that they follow.

Objects are indexed by type, owner and node; objects of storage also by claim, volume and class,
pods by their device claims, and these by the pools of their devices. The server's answer to a write
is stored at once, and older news is dropped, so controllers read their own writes and a late watch
never makes a controller do something twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, cast

import msgspec

from berth.actors.scheduling.kube.claims import class_of
from berth.actors.scheduling.kube.coordination import Lease
from berth.actors.scheduling.kube.devices import ResourceClaim, ResourceSlice
from berth.actors.scheduling.kube.meta import HasMetadata, version_number, version_of
from berth.actors.scheduling.kube.reading import UNREADABLE
from berth.actors.scheduling.kube.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
)

from .api.types.api_documents import StoredObject
from .devices.device_claims import claim_keys, pool_of, pools_of, template_keys
from .disruption.budget_index import budget_labels, pod_labels
from .objects.custom_objects import CustomObjects
from .objects.properties import controller_of, is_finished
from .objects.services import EndpointSlice, Service, service_labels, service_of
from .objects.structs import TYPES, Pod, PodDisruptionBudget, T, read
from .storage.pod_volumes import claimed_key, pod_claims

REMEMBERED = 100_000
Key = tuple[type[HasMetadata], str, str]
Index = dict[str, dict[Key, None]]
Fields = dict[str, Callable[[Any], Collection[str]]]

# The fields by which objects are looked up, besides names; "" stands for an absent field. "free"
# and "waiting" hold, by class, the volumes without a claim and the claims without a volume.
_INDEXED: dict[type[HasMetadata], Fields] = {
    Pod: {
        "node": lambda pod: (pod.spec.node_name,),
        "claim": lambda pod: {f"{pod.metadata.namespace}/{c.name}" for c in pod_claims(pod)},
        "device-claim": claim_keys,
        "claim-template": template_keys,
        "label": pod_labels,
        "finished": lambda pod: (str(is_finished(pod)),),
    },
    PodDisruptionBudget: {"label": budget_labels},
    Service: {"label": service_labels},
    EndpointSlice: {"service": service_of},
    VolumeAttachment: {
        "node": lambda attachment: (attachment.spec.node_name,),
        "volume": lambda attachment: (attachment.spec.source.persistent_volume_name or "",),
    },
    ResourceClaim: {"pool": pools_of},
    ResourceSlice: {"pool": lambda slice_: (pool_of(slice_),)},
    PersistentVolume: {
        "claim": lambda volume: (claimed_key(volume),),
        "class": lambda volume: (class_of(volume),),
        "free": lambda volume: () if volume.spec.claim_ref else (class_of(volume),),
    },
    PersistentVolumeClaim: {
        "volume": lambda claim: (claim.spec.volume_name,),
        "waiting": lambda claim: () if claim.spec.volume_name else (class_of(claim),),
    },
}


class ObjectChange(msgspec.Struct, frozen=True):
    """An object before and after a change; None if it did not exist or no longer does."""

    before: HasMetadata | None
    after: HasMetadata | None


class ObjectIndex:
    """The objects of the cluster by type, namespace and name."""

    def __init__(self) -> None:
        self._objects: dict[type[HasMetadata], dict[str, dict[str, HasMetadata]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        # The indexes hold places only, so they stay as they are while an object stays in its own.
        self._dependents: Index = defaultdict(dict)
        self._free: dict[tuple[type[HasMetadata], str], dict[Key, None]] = defaultdict(dict)
        self._indexed: dict[tuple[type[HasMetadata], str], Index] = {
            (kind, field): defaultdict(dict)
            for kind, fields in _INDEXED.items()
            for field in fields
        }
        self._gone: dict[str, None] = {}
        self._absent: dict[tuple[str, str, str, str], None] = {}
        self._listed: set[type[HasMetadata]] = set()
        self._unreadable: set[Key] = set()
        self._renewed: dict[tuple[str, str], StoredObject] = {}
        # Why the server last refused to create or scale something for an object: by kind, namespace
        # and name.
        self.refusals: dict[tuple[str, str, str], str] = {}
        self.customs: dict[str, CustomObjects] = {}  # custom kinds that are or were followed

    def type_of(self, kind: str) -> type[HasMetadata]:
        """Returns the type of the objects of a kind. Raises KeyError for an unknown one."""
        return TYPES.get(kind) or self.customs[kind].type

    def renew(self, leases: Mapping[tuple[str, str], StoredObject]) -> None:
        """Stores renewed leases, given by namespace and name. A lease is read only on demand."""
        self._renewed.update(leases)

    def _read_renewed(self) -> None:
        renewed, self._renewed = self._renewed, {}
        for stored in renewed.values():
            with suppress(*UNREADABLE):
                self.put(read(stored.document, Lease))

    def find(self, kind: type[T], namespace: str, name: str) -> T | None:
        if kind is Lease and self._renewed:
            self._read_renewed()
        return cast("T | None", self._objects[kind][namespace].get(name))

    def has(self, kind: type[T], namespace: str, name: str) -> bool:
        return self.find(kind, namespace, name) is not None

    def refusal(self, obj: HasMetadata) -> str:
        """Returns why the server last refused to write something for an object, or ""."""
        metadata = obj.metadata
        return self.refusals.get((type(obj).__name__, metadata.namespace, metadata.name), "")

    def all(self, kind: type[T]) -> Iterator[T]:
        if kind is Lease and self._renewed:
            self._read_renewed()
        return (cast("T", obj) for named in self._objects[kind].values() for obj in named.values())

    def within(self, kind: type[T], namespace: str) -> list[T]:
        if kind is Lease and self._renewed:
            self._read_renewed()
        return cast("list[T]", list(self._objects[kind][namespace].values()))

    def candidates(self, kind: type[T], owner: HasMetadata) -> list[T]:
        """Returns the objects of a kind that an owner controls or could adopt."""
        metadata = owner.metadata
        mine = [key for key in self._dependents.get(metadata.uid, ()) if key[0] is kind]
        return cast("list[T]", self._objects_at([*mine, *self._free[kind, metadata.namespace]]))

    def dependents(self, uid: str) -> list[HasMetadata]:
        if self._renewed:
            self._read_renewed()
        return self._objects_at(self._dependents.get(uid, ()))

    def count_dependents(self, uid: str) -> int:
        return len(self._dependents.get(uid, ()))

    def by(self, kind: type[T], field: str, value: str) -> list[T]:
        """Returns the objects of a kind with this value in an indexed field."""
        return cast("list[T]", self._objects_at(self._indexed[kind, field].get(value, ())))

    def has_indexed(self, kind: type[HasMetadata], field: str) -> bool:
        """True if there is a value of this field for which `by` returns an object."""
        return bool(self._indexed[kind, field])

    def count(self, kind: type[T], field: str, value: str) -> int:
        """Returns the number of the objects that `by` returns, in constant time."""
        return len(self._indexed[kind, field].get(value, ()))

    def pods_on(self, node: str) -> list[Pod]:
        return self.by(Pod, "node", node) if node else []

    def is_gone(self, uid: str) -> bool:
        """True if the object of this uid is known to have been deleted."""
        return uid in self._gone

    def is_listed(self, kind: type[HasMetadata]) -> bool:
        """True once all objects of the kind that existed at one moment have been stored."""
        return kind in self._listed

    def is_absent(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        """True if the server was asked, and has no object of this kind, name and uid."""
        return (kind, namespace, name, uid) in self._absent

    def note_absent(self, kind: str, namespace: str, name: str, uid: str) -> None:
        self._absent[kind, namespace, name, uid] = None
        if len(self._absent) > REMEMBERED:
            del self._absent[next(iter(self._absent))]

    def is_readable(self, kind: type[HasMetadata], namespace: str, name: str) -> bool:
        """False if only a part of the object could be read."""
        return (kind, namespace, name) not in self._unreadable

    def _objects_at(self, places: Iterable[Key]) -> list[HasMetadata]:
        objects = self._objects
        return [objects[kind][namespace][name] for kind, namespace, name in places]

    def put(self, obj: HasMetadata, *, readable: bool = True) -> ObjectChange | None:
        """Stores an object. Returns None if it is no newer than the stored one, or was deleted.

        If not `readable`, `obj` is the readable part of an object that cannot be read.
        """
        kind, metadata = type(obj), obj.metadata
        if kind is Lease and self._renewed:
            self._read_renewed()
        named = self._objects[kind][metadata.namespace]
        before = named.get(metadata.name)
        if metadata.uid in self._gone or (
            before is not None and version_of(obj) <= version_of(before)
        ):
            return None
        if before is None:
            self._index(obj)
        elif not _has_same_place(before, obj):
            self._forget(before, is_deleted=before.metadata.uid != metadata.uid)
            self._index(obj)
        named[metadata.name] = obj
        if not readable:
            self._unreadable.add(_key(obj))
        elif self._unreadable:
            self._unreadable.discard(_key(obj))
        return ObjectChange(before, obj)

    def _index(self, obj: HasMetadata) -> None:
        place = _key(obj)
        kind, namespace, _ = place
        for owner in obj.metadata.owner_references:
            self._dependents[owner.uid][place] = None
        if controller_of(obj) is None:
            self._free[kind, namespace][place] = None
        for field, values in _INDEXED.get(kind, {}).items():
            for value in values(obj):
                self._indexed[kind, field][value][place] = None

    def remove(self, obj: HasMetadata) -> ObjectChange | None:
        """Removes a deleted object. Returns None if it was not stored."""
        metadata = obj.metadata
        return self.discard(type(obj), metadata.namespace, metadata.name, metadata.uid)

    def discard(
        self, kind: type[HasMetadata], namespace: str, name: str, uid: str
    ) -> ObjectChange | None:
        """Removes a deleted object like `remove`, by its name and uid."""
        stored = self.find(kind, namespace, name)
        if stored is None or stored.metadata.uid != uid:
            self._remember(uid)
            return None
        self._forget(stored, is_deleted=True)
        return ObjectChange(stored, None)

    def note_none(self, kind: type[HasMetadata]) -> None:
        """Notes that there is no object of a kind yet."""
        self._listed.add(kind)

    def replace(
        self, kind: type[T], objects: Iterable[T], parts: Iterable[T] = (), version: str = ""
    ) -> list[ObjectChange]:
        """Replaces all objects of a kind by those of a list.

        `parts` are the readable parts of objects that cannot be read. An object that is newer than
        the `version` of the list, as the answer to a write may be, is removed too, but may come
        back: the list does not say that it was deleted.
        """
        self._listed.add(kind)
        listed = {obj.metadata.uid: obj for obj in objects}
        unreadable = {part.metadata.uid: part for part in parts}
        uids = listed.keys() | unreadable.keys()
        gone = [obj for obj in self.all(kind) if obj.metadata.uid not in uids]
        changes: list[ObjectChange | None] = [ObjectChange(obj, None) for obj in gone]
        for obj in gone:
            self._forget(obj, is_deleted=not 0 < version_number(version) < version_of(obj))
        changes += [self.put(obj) for obj in listed.values()]
        changes += [self.put(part, readable=False) for part in unreadable.values()]
        return [change for change in changes if change is not None]

    def _forget(self, obj: HasMetadata, *, is_deleted: bool) -> None:
        place = _key(obj)
        kind, namespace, name = place
        del self._objects[kind][namespace][name]
        self._unreadable.discard(place)
        for owner in obj.metadata.owner_references:
            _drop(self._dependents, owner.uid, place)
        self._free[kind, namespace].pop(place, None)
        for field, values in _INDEXED.get(kind, {}).items():
            for value in values(obj):
                _drop(self._indexed[kind, field], value, place)
        if is_deleted:
            self._remember(obj.metadata.uid)

    def _remember(self, uid: str) -> None:
        self._gone[uid] = None
        if len(self._gone) > REMEMBERED:
            del self._gone[next(iter(self._gone))]


def _has_same_place(before: HasMetadata, after: HasMetadata) -> bool:
    """True if the indexes hold two versions of an object in the same places."""
    old, new, fields = before.metadata, after.metadata, _INDEXED.get(type(after))
    if old.uid != new.uid or old.owner_references != new.owner_references:
        return False
    return fields is None or all(of(before) == of(after) for of in fields.values())


def _key(obj: HasMetadata) -> Key:
    return type(obj), obj.metadata.namespace, obj.metadata.name


def _drop(index: Index, field: str, key: Key) -> None:
    places = index.get(field)
    if places is not None:
        places.pop(key, None)
        if not places:
            del index[field]
