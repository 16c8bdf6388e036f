"""The watches of controllers: when they have begun."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest

from berth.actors.client.interruption import KindUnlisted
from berth.actors.client.watch import ObjectChanged, ObjectsListed
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.tools.cluster.controllers.object_watches import Watches
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.object_index import ObjectIndex
from berth.tools.kubernetes.objects.structs import DeviceTaintRule
from tests.kit.virtual_loop import in_virtual_time

RULES = BY_KIND["resource.k8s.io/v1", "DeviceTaintRule"]
NONE: ObjectsListed[Any] = ObjectsListed((), ())
ABSENT = KindUnlisted("cannot list devicetaintrules", absent=True)
REFUSED = KindUnlisted("cannot list devicetaintrules")


class Answers:
    """Access that tells the given updates, and then no more."""

    def __init__(self, *updates: object) -> None:
        self._updates = updates

    def follow(self, *_: object) -> Answers:
        return self

    async def changes(self) -> AsyncGenerator[object]:
        for update in self._updates:
            yield update
        await anyio.sleep_forever()


@pytest.mark.parametrize(
    ("updates", "starts"),
    [((NONE,), True), ((ABSENT,), True), ((REFUSED,), False), ((REFUSED, NONE), True)],
)
@in_virtual_time
async def test_a_watch_begins_with_its_list_or_without_its_kind(
    updates: tuple[object, ...], starts: bool
) -> None:
    access: Any = Answers(*updates)
    watches = Watches(ObjectIndex(), access, lambda _: None)
    started = False
    with anyio.move_on_after(10):
        async with anyio.create_task_group() as group:
            await group.start(
                watches.follow, BY_KIND["resource.k8s.io/v1", "DeviceTaintRule"], DeviceTaintRule
            )
            started = True
            group.cancel_scope.cancel()
    assert started == starts


@pytest.mark.parametrize(
    ("version", "is_kept"), [("5", True), ("7", False), ("9", False), ("", False)]
)
@in_virtual_time
async def test_a_list_does_not_know_of_later_objects(version: str, is_kept: bool) -> None:
    """The answer to a write may come before an older list, which was on its way: the watch tells of
    that object then. What is told of an object that the list would have had is late.
    """
    metadata = ObjectMeta(name="a", uid="u", resource_version="7")
    created, cluster = DeviceTaintRule(metadata=metadata), ObjectIndex()
    cluster.put(created)
    access: Any = Answers(ObjectsListed((), (), version), ObjectChanged(created))
    with anyio.move_on_after(1):
        await Watches(cluster, access, lambda _: None).follow(RULES, DeviceTaintRule)
    assert [*cluster.all(DeviceTaintRule)] == ([created] if is_kept else [])
    assert cluster.is_gone("u") == (not is_kept)
