"""The Coscheduling plugin: pods of a PodGroup get nodes all together or not at all.

Members that have a node wait in Permit until `minMember` of them have one. If one of them finds no
node, so that more than a few are missing whom nobody can replace, or the time is over, all give
their nodes back, and the group backs off as a whole. While a group sleeps, one member, its head, is
tried at each change; if there is room for the whole group by its requests, the head takes a node
and wakes the others. A head that finds none leaves its part to the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from berth.plugin import (
    SKIP,
    SUCCESS,
    Action,
    ClusterEvent,
    Code,
    Concerns,
    CycleState,
    FailedAttempt,
    Handle,
    Hint,
    PermitPlugin,
    PluginScope,
    Pod,
    PodInfo,
    PostFiltered,
    PostFilterPlugin,
    PreFilterPlugin,
    QueueSortPlugin,
    Registration,
    ReservePlugin,
    Resource,
    Snapshot,
    StateKey,
    Status,
    read_args,
    unresolvable,
    unschedulable,
)

from .pod_groups import LABEL, POD_GROUPS, GroupName, PodGroup, group_of
from .room import has_room_for

# The uids of the members that the API server has on a node.
BOUND: StateKey[frozenset[str]] = StateKey("CoschedulingBound")
LOOK_SECONDS = 1.0
FORGET_SECONDS = 60.0

Seconds = Annotated[float, msgspec.Meta(gt=0)]
Percentage = Annotated[int, msgspec.Meta(ge=0, le=100)]


class CoschedulingArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """`permit_waiting_time_seconds` is the time for which members wait for each other, unless the
    group says another. A group that failed backs off for `pod_group_backoff_seconds`, doubled with
    each failure in a row up to the maximum. It has not failed, if a member finds no node, while no
    more than `pod_group_reject_percentage` of the members that it needs are without one.
    """

    permit_waiting_time_seconds: Seconds = 60.0
    pod_group_backoff_seconds: Seconds = 1.0
    pod_group_max_backoff_seconds: Seconds = 120.0
    pod_group_reject_percentage: Percentage = 10


class _Group:
    """What the plugin remembers of a group.

    `since` is its place in the queue. `holds` are the members that have a node by a Reserve of this
    process, by uid, and `in_vain` the uids of those that found none meanwhile. After `failures` in
    a row it backs off until the time `until`, 0 for none. `asleep` are the members that the plugin
    rejected, by uid, the last one at the end; `head` is the uid of the one that the latest `change`
    wakes. `smallest` is the least that a member requested of each resource.
    """

    def __init__(self, since: float) -> None:
        self.since = since
        self.holds: dict[str, Pod] = {}
        self.in_vain: set[str] = set()
        self.failures = 0
        self.until = 0.0
        self.asleep: dict[str, Pod] = {}
        self.change: tuple[object | None, object | None] = (None, None)
        self.head = ""
        self.smallest: Mapping[str, int] | None = None

    def sleeps(self, pod: Pod) -> None:
        self.asleep.pop(pod.metadata.uid, None)
        self.asleep[pod.metadata.uid] = pod

    def asks(self, requests: Mapping[str, int]) -> Mapping[str, int]:
        """Notes what a member requests, and returns the least of each resource so far."""
        least = requests if self.smallest is None else self.smallest
        self.smallest = {name: min(least[name], requests.get(name, 0)) for name in least}
        return self.smallest


class Coscheduling(QueueSortPlugin, PreFilterPlugin, PostFilterPlugin, ReservePlugin, PermitPlugin):
    name = "Coscheduling"
    args_type = CoschedulingArgs
    lookups = (POD_GROUPS,)

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        super().__init__({}, handle)
        self.args = read_args(args, CoschedulingArgs)
        self._groups: dict[GroupName, _Group] = {}
        self._failed = handle.metrics.counter(
            "coscheduling_group_failures_total", "Groups that gave their nodes back."
        )

    async def start(self, scope: PluginScope) -> None:
        scope.every(LOOK_SECONDS, self._end_backoffs)
        scope.every(FORGET_SECONDS, self._forget)

    # -------------------------------------------------------------------------------- the attempt

    def sort_key(self, info: PodInfo, enqueued_at: float) -> tuple[int, float, str]:
        """Members of a group are neighbours in the queue: another group in between would take the
        room of those that come later.
        """
        name = group_of(info.pod)
        if name is None:
            return -info.priority, enqueued_at, ""
        return -info.priority, self._group(name, enqueued_at).since, "/".join(name)

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Status:
        name = group_of(info.pod)
        if name is None:
            return SKIP
        pod_group = snapshot.objects.get(PodGroup, name[1], name[0])
        if pod_group is None:
            return unresolvable(f'pod group "{name[1]}" not found')
        group = self._group(name)
        bound = self._bound(name, snapshot)
        state.write(BOUND, bound)
        status = SUCCESS  # if the group runs, or the first member has asked what follows
        if not bound and not any(self._is_there(pod) for pod in group.holds.values()):
            status = self._may_begin(name, group, pod_group, info, snapshot)
        if status.ok:
            group.asleep.pop(info.uid, None)
        else:
            group.sleeps(info.pod)
        return status

    def _may_begin(
        self,
        name: GroupName,
        group: _Group,
        pod_group: PodGroup,
        info: PodInfo,
        snapshot: Snapshot,
    ) -> Status:
        """Says whether the first member may take a node."""
        needed, least = pod_group.spec.min_member, group.asks(info.requests)
        ready = sum(not pod.spec.scheduling_gates for pod in self._members(name))
        if ready < needed:
            return unresolvable(f'pod group "{name[1]}" has {ready} pods of {needed}')
        if self.handle.now() < group.until:
            return unresolvable(f'pod group "{name[1]}" failed recently')
        if not has_room_for(needed, least, info.priority, snapshot):
            return unresolvable(f'no room for the {needed} pods of pod group "{name[1]}"')
        return SUCCESS

    def post_filter(self, attempt: FailedAttempt) -> PostFiltered:
        """If too many members find no node, the others do not wait for the end of their time."""
        pod, uid = attempt.info.pod, attempt.info.uid
        name = group_of(pod)
        group = None if name is None else self._group(name)
        if name is None or group is None or uid in group.asleep:
            return PostFiltered(unschedulable())
        if not any(self._waiting(name)):
            self.handle.activate(*self._next_head(group))
            return PostFiltered(unschedulable())
        group.in_vain.add(uid)
        if self._may_be_whole(name, group, attempt):
            return PostFiltered(unschedulable())
        reason = f'pod group "{name[1]}" gives its nodes back, as {pod.metadata.name} has none'
        self._fail(name, reason)
        return PostFiltered(unschedulable(reason))

    def _may_be_whole(self, name: GroupName, group: _Group, attempt: FailedAttempt) -> bool:
        """True if enough members are left to try, or so few are missing that the others may wait
        for them.
        """
        pod_group = attempt.snapshot.objects.get(PodGroup, name[1], name[0])
        if pod_group is None:
            return False
        needed, scheduler = pod_group.spec.min_member, attempt.info.pod.spec.scheduler_name
        missing = needed - len(self._with_node(name, attempt.state))
        left = sum(
            pod.metadata.uid not in group.in_vain
            and not pod.spec.scheduling_gates
            and pod.spec.scheduler_name == scheduler
            for pod in self._without_node(name, group)
        )
        return missing <= left or 100 * missing <= self.args.pod_group_reject_percentage * needed

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        name = group_of(info.pod)
        if name is not None:
            self._group(name).holds[info.uid] = info.pod
        return SUCCESS

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        name = group_of(info.pod)
        if name is None:
            return SUCCESS, 0.0
        pod_group = self.handle.objects.get(PodGroup, name[1], name[0])
        if pod_group is None:
            return unresolvable(f'pod group "{name[1]}" not found'), 0.0
        group = self._group(name)
        if len(self._with_node(name, state) | {info.uid}) < pod_group.spec.min_member:
            if len(group.holds) == 1:
                self.handle.activate(*self._without_node(name, group))
            own = float(pod_group.spec.schedule_timeout_seconds or 0)
            return Status(Code.WAIT), own if own > 0 else self.args.permit_waiting_time_seconds
        for waiting in self._waiting(name):
            self.handle.allow(waiting)
        group.failures = 0
        group.in_vain.clear()
        return SUCCESS, 0.0

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        """A member that loses its node before the group is whole takes the others along. Those
        that the plugin rejected itself hold nothing any more.
        """
        name = group_of(info.pod)
        group = None if name is None else self._groups.get(name)
        if name is not None and group is not None and group.holds.pop(info.uid, None) is not None:
            group.sleeps(info.pod)
            reason = f'pod group "{name[1]}" gives its nodes back, as {info.pod.metadata.name} did'
            self._fail(name, reason)

    # ----------------------------------------------------------------------- what ends its waiting

    def events_to_register(self) -> Sequence[Registration]:
        grown = Action.ADD | Action.UPDATE_NODE_ALLOCATABLE
        freed = Action.UPDATE_NODE_TAINT | Action.UPDATE_NODE_LABEL
        room = (
            ClusterEvent(Resource.NODE, grown | freed),
            ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN),
        )
        changed = ClusterEvent("PodGroup", Action.ADD | Action.UPDATE)
        placed_by_others = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
        return (
            Registration(changed, _is_of_the_group),
            Registration(ClusterEvent(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_LABEL)),
            Registration(placed_by_others, _is_of_the_group, Concerns(_namespaces, _namespaces)),
            *(Registration(event, self._may_have_room) for event in room),
        )

    def _may_have_room(self, pod: Pod, old: object | None, new: object | None) -> Hint:
        """Wakes one member of a group that sleeps: the one that was not tried for the longest time,
        as its own back-off is over. Room that another group gives back may be enough, too, but does
        not end the group's back-off: groups that fail in turns would wake each other.
        """
        name = group_of(pod)
        if name is None:
            return Hint.QUEUE
        group = self._group(name)
        if group.change[0] is not old or group.change[1] is not new:
            group.change = old, new
            given_back = new is None and isinstance(old, Pod) and self._is_there(old)
            if not given_back:
                group.until = 0.0
            head = next(iter(self._next_head(group)), pod)
            group.head = head.metadata.uid
            group.sleeps(head)
        return Hint.QUEUE if group.head == pod.metadata.uid else Hint.SKIP

    def _end_backoffs(self) -> None:
        now = self.handle.now()
        for group in self._groups.values():
            if 0 < group.until <= now:
                group.until = 0.0
                self.handle.activate(*self._next_head(group))

    def _next_head(self, group: _Group) -> Sequence[Pod]:
        """Returns the member that was not tried for the longest time, as one pod, or none."""
        asleep = group.asleep.items()
        group.asleep = {uid: pod for uid, pod in asleep if self._is_there(pod)}
        return [*group.asleep.values()][:1]

    def _forget(self) -> None:
        """Forgets the groups without pods."""
        names = {group_of(pod) for pod in self.handle.objects.every(Pod)}
        self._groups = {name: group for name, group in self._groups.items() if name in names}

    # -------------------------------------------------------------------------------------- groups

    def _group(self, name: GroupName, since: float | None = None) -> _Group:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group(self.handle.now() if since is None else since)
        return group

    def _fail(self, name: GroupName, reason: str) -> None:
        """Takes the nodes of a group's waiting members, and lets the group back off."""
        group, now = self._group(name), self.handle.now()
        for waiting in self._waiting(name):
            if self.handle.reject(waiting, reason):
                group.holds.pop(waiting.uid, None)
                group.sleeps(waiting.pod)
        longest = self.args.pod_group_max_backoff_seconds
        backoff = self.args.pod_group_backoff_seconds * 2.0 ** min(group.failures, 30)
        group.failures += 1
        group.in_vain.clear()
        group.since, group.until = now, now + min(backoff, longest)
        self._failed.inc()
        self.handle.log.at(2, "pod group failed", group="/".join(name), reason=reason)

    def _members(self, name: GroupName) -> Sequence[Pod]:
        members = self.handle.objects.select(Pod, name[0], {LABEL: name[1]})
        return [pod for pod in members if pod.metadata.deletion_timestamp is None]

    def _without_node(self, name: GroupName, group: _Group) -> list[Pod]:
        return [
            pod
            for pod in self._members(name)
            if not pod.spec.node_name and pod.metadata.uid not in group.holds
        ]

    def _waiting(self, name: GroupName) -> Iterator[PodInfo]:
        for waiting in self.handle.waiting.each():
            if group_of(waiting.info.pod) == name:
                yield waiting.info

    def _with_node(self, name: GroupName, state: CycleState) -> set[str]:
        """Returns the uids of the members that run, or have a node and wait."""
        group = self._group(name)
        group.holds = {uid: pod for uid, pod in group.holds.items() if self._is_there(pod)}
        return {*(state.get(BOUND) or ()), *group.holds}

    def _bound(self, name: GroupName, snapshot: Snapshot) -> frozenset[str]:
        """Returns the uids of the members that run. Pods in the snapshot may only wait for the
        others, so the API server's view of them counts.
        """
        placed = (info.pod for _, info in snapshot.pods(name[0], {LABEL: name[1]}))
        found = (pod for pod in map(self._now, placed) if pod is not None and pod.spec.node_name)
        return frozenset(pod.metadata.uid for pod in found)

    def _now(self, pod: Pod) -> Pod | None:
        """Returns a pod as the API server last sent it; None once it is gone or going."""
        metadata = pod.metadata
        found = self.handle.objects.get(Pod, metadata.name, metadata.namespace)
        if found is None or found.metadata.uid != metadata.uid:
            return None
        return None if found.metadata.deletion_timestamp is not None else found

    def _is_there(self, pod: Pod) -> bool:
        return self._now(pod) is not None


def _is_of_the_group(pod: Pod, _: object | None, new: object | None) -> Hint:
    if isinstance(new, PodGroup):
        ours = group_of(pod) == (new.metadata.namespace, new.metadata.name)
    else:
        ours = not isinstance(new, Pod) or group_of(pod) == group_of(new)
    return Hint.QUEUE if ours else Hint.SKIP


def _namespaces(*pods: object | None) -> Sequence[str]:
    return [pod.metadata.namespace for pod in pods if isinstance(pod, Pod)]
