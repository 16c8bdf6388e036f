"""The table of all controllers: the items that a change may affect, and the function that decides
on an item.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import datetime

from berth.actors.scheduling.kube.coordination import Lease
from berth.actors.scheduling.kube.meta import HasMetadata

from ...kubernetes import garbage_collector
from ...kubernetes.kubelet.usage_models import NO_SCENARIO, Scenario
from ...kubernetes.object_index import ObjectChange, ObjectIndex
from ...kubernetes.objects.properties import controller_of
from ...kubernetes.objects.structs import TYPES, Pod
from ...kubernetes.objects.writes import Write
from ...kubernetes.work_items import Item, item_of
from ...kubernetes.workloads.job import job_controller as job
from .autoscaler_controllers import Autoscalers
from .controller import Affected, Controller, Watch
from .device_controllers import device_controllers
from .disruption_controllers import DISRUPTION
from .node_controllers import NodeControllers
from .service_controllers import service_controllers
from .storage_controllers import StorageControllers
from .workload_controllers import workload_controllers


class ControllerTable:
    """The controllers of these names, or all. Some keep state, such as the time since when a
    condition holds.
    """

    def __init__(
        self,
        time: Callable[[], datetime],
        scenario: Scenario = NO_SCENARIO,
        names: Collection[str] | None = None,
    ) -> None:
        self.nodes = NodeControllers(time)
        rows: tuple[Controller, ...] = (
            *self.nodes.rows,
            *DISRUPTION,
            *workload_controllers(),
            *service_controllers(),
            Autoscalers(scenario).row,
            *StorageControllers().rows,
            *device_controllers(),
            Controller("garbage", Pod, dict.fromkeys(TYPES.values(), _garbage), _collect),
        )
        self._controllers = {row.name: row for row in rows if names is None or row.name in names}
        self._watching: dict[type[HasMetadata], list[tuple[Controller, Watch]]] = {}
        garbage = self._controllers.get("garbage")
        self._watching_customs = [] if garbage is None else [(garbage, _garbage)]
        for row in self._controllers.values():
            for kind, watch in row.watches.items():
                self._watching.setdefault(kind, []).append((row, watch))

    def touched(self, cluster: ObjectIndex, change: ObjectChange) -> Iterator[Item]:
        """Handles a change of an object. Yields the items that it may affect, some perhaps
        twice.
        """
        before, after = change.before, change.after
        obj = after or before
        assert obj is not None
        if before and after and before.metadata.uid != after.metadata.uid:
            yield from self.touched(cluster, ObjectChange(before, None))
            before = None  # another object of the same name
        for row, watch in self._watching.get(type(obj), self._watching_customs):
            for place in watch(cluster, before, after):
                if isinstance(place, tuple):
                    yield Item(row.name, row.kind.__name__, *place)
                else:
                    yield item_of(row.name, place)

    def reconcile(self, cluster: ObjectIndex, item: Item, now: datetime) -> list[Write]:
        return self._controllers[item.controller].reconcile(cluster, item, now)


def _garbage(
    cluster: ObjectIndex, before: HasMetadata | None, after: HasMetadata | None
) -> Iterator[Affected]:
    if isinstance(before, Lease) and isinstance(after, Lease):
        return  # renewed
    yield from garbage_collector.touched(cluster, ObjectChange(before, after))
    if isinstance(after, Pod) and _waits_for_job(cluster, after):
        yield after


def _waits_for_job(cluster: ObjectIndex, pod: Pod) -> bool:
    """True if a pod still has the finalizer of a job that is gone."""
    if job.FINALIZER not in pod.metadata.finalizers:
        return False
    owner = controller_of(pod)
    return owner is None or cluster.is_gone(owner.uid)


def _collect(cluster: ObjectIndex, item: Item, _now: datetime) -> list[Write]:
    obj = cluster.find(cluster.type_of(item.kind), item.namespace, item.name)
    if obj is None:
        return []
    frees = (
        job.without_job_finalizer(obj)
        if isinstance(obj, Pod) and _waits_for_job(cluster, obj)
        else []
    )
    return [*frees, *garbage_collector.reconcile(cluster, obj)]
