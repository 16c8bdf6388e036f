"""The first writes of a cluster in virtual time: the same in each, so that they are made once."""

from __future__ import annotations

from functools import cache
from random import Random

from ..kubernetes.api.requests.field_managers import SERVER
from ..kubernetes.api.store import Store, StoreEvent
from ..kubernetes.api.time_and_chance import TimeAndChance
from ..kubernetes.api.types.releases import Release
from ..kubernetes.api.types.resources import Kind
from ..kubernetes.api.writes.registry import Api
from .virtual_time import BEGAN

Writes = list[tuple[Kind, StoreEvent]]


@cache
def first_writes(release: Release) -> Writes:
    """Returns the writes of the objects that every cluster of a release starts with, at the time at
    which virtual time begins. Their uids are the same in each cluster.
    """
    writes: Writes = []
    store = Store(
        TimeAndChance(lambda: BEGAN, Random(0)),
        journal=lambda kind, event: writes.append((kind, event)),
    )
    store.release = release
    Api(store, manager=SERVER).seed()
    return writes
