"""The scheduling queue. Every pending pod is in exactly one place, and wakes when something happens
that may help it.

This module takes the messages, and follows a pod from its arrival over its attempts to its end.
queues.py moves pods between the places, waking.py decides when a pod that waits is tried again,
nominations.py tells the cache where to keep room, and look.py shows and counts. Mirrors
kube-scheduler's PriorityQueue. Pure: `now` is an argument, effects are returned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import count
from typing import assert_never

from ..messages.comparison import Healed
from ..messages.queue import (
    NO_PLUGINS,
    Activate,
    AttemptFailed,
    ClusterChanged,
    ComparePending,
    CountQueued,
    Displace,
    Done,
    DumpQueued,
    Examined,
    Failure,
    FlushBackoff,
    FlushUnschedulable,
    IsHeld,
    KindKnown,
    ListQueued,
    MeasureQueue,
    NextParked,
    NextPod,
    PauseNamespace,
    PendingPodAdded,
    PendingPodUpdated,
    PluginAskedAgain,
    PodNoLongerPending,
    PreemptionEnded,
    QueuedPod,
    QueueMeasures,
    QueueMessage,
    QueueStatistics,
    ResumeNamespace,
    ShowStory,
    StoryStep,
    UseProfiles,
)
from ..messages.recorder import SetNominatedNode
from ..scheduling.framework.changes import pod_changes
from ..scheduling.kube.core import Pod
from ..scheduling.kube.meta import key
from ..scheduling.model.pod_info import PodInfo, PodInfos
from .effects import Effect, HandOut
from .entry import Entry
from .forgotten import Forgotten
from .hints import Worth
from .look import differences, dump, measures, statistics
from .nominations import end_of_nomination, nominate, nomination_after
from .places import (
    ACTIVE,
    ADDED,
    BACKOFF,
    FAILED,
    IN_FLIGHT,
    OUTSIDE,
    POPPED,
    REMOVED,
    UNSCHEDULABLE,
)
from .queues import ATTEMPT_FAILED, QueueRules, Queues
from .waking import KIND_KNOWN, PLUGIN_ASKED_AGAIN, Waking

# Moves that no cluster event causes, as the metric queue_incoming_pods_total names them.
POP_FROM_BACKOFF = "PopFromBackoffQ"


class QueueState:
    def __init__(self, rules: QueueRules) -> None:
        self._queues = Queues(rules)
        self.pod_names = names = rules.pod_names
        self._pod_added, self._pod_came_late = Worth(f"{names.unscheduled}Add"), Worth(names.late)
        self._waking = Waking(self._queues)
        self._forgotten = Forgotten(self._queues)
        self._entries = self._queues.entries
        self._in_flight = self._queues.in_flight
        self._pod_infos = PodInfos()
        self._arrival = count()
        self._waiting: deque[NextPod] = deque()
        self._gone: frozenset[str] = frozenset()  # the scheduler names that were ours
        self._healed = 0

    def handle(self, message: QueueMessage, now: float) -> Sequence[Effect]:
        """Handles one message; returns its effects, in order. `now` is in monotonic seconds."""
        effects: Sequence[Effect] = ()
        match message:  # The most frequent messages come first.
            case ClusterChanged():
                effects = self._waking.changed(message, now)
            case NextPod():
                behind = self._queues.turns.ended(now)
                if behind:
                    self._queues.active.put_behind(behind)
                self._waiting.append(message)
            case PendingPodAdded():
                effects = self._add(message.pod, self._pod_added, now)
            case Done():
                self._in_flight.done(message.uid)
            case PodNoLongerPending():
                effects = self._delete(message.pod, now)
            case PendingPodUpdated(old, new):
                effects = self._update(old, new, now)
            case AttemptFailed():
                effects = self._failed(message.pod, message.failure, now)
            case PreemptionEnded():
                effects = self._waking.end_hold(message, now)
            case Displace(info, node):
                effects = self._displace(info, node, now)
            case IsHeld():
                effects = (message.answer(self._is_held(message)),)
            case Activate():
                effects = self._waking.activate(message, now)
            case PauseNamespace(namespace):
                self._queues.active.pause(namespace)
            case ResumeNamespace(namespace):
                self._queues.active.resume(namespace)
            case KindKnown():
                effects = self._waking.ask_failed_gates(KIND_KNOWN, now)
            case PluginAskedAgain():
                effects = self._waking.ask_failed_gates(PLUGIN_ASKED_AGAIN, now)
            case FlushBackoff():
                effects = self._waking.flush_backoff(now)
            case FlushUnschedulable():
                effects = self._waking.flush_unschedulable(now)
            case UseProfiles():
                effects = self._use(message, now)
            case ComparePending():
                effects = self._compare(message, now)
            case MeasureQueue():
                effects = (message.answer(self.measures()),)
            case CountQueued():
                effects = (message.answer(self.statistics()),)
            case ShowStory():
                effects = (message.answer(self._queues.stories.of(message.key)),)
            case ListQueued():
                effects = (message.answer((*self._entries, *self._queues.in_flight_by_key())),)
            case NextParked():
                effects = (message.answer(self._forgotten.next(now)),)
            case Examined():
                effects = self._forgotten.examined(message, now)
            case DumpQueued(_, keys):
                effects = (message.answer(dump(self._queues, keys, now)),)
            case _:
                assert_never(message)
        if self._waiting:
            handed_out = self._hand_out(now)
            effects = (*effects, *handed_out) if effects else handed_out
        return effects

    # ------------------------------------------------------------------ pods come, change and go

    def _add(self, pod: Pod, why: Worth, now: float) -> Sequence[Effect]:
        info = self._pod_infos.of(pod)
        present = self._in_flight.get(info.uid) or self._entries.get(info.key)
        if present is not None and present.info.uid == info.uid:
            return self._update(present.info.pod, pod, now)
        removed = () if present is None else self._remove(present, now)
        entry = Entry(info, now, next(self._arrival))
        if self._queues.rules.nominates_gated:
            removed = (*removed, *nominate(entry, pod.status.nominated_node_name))
        added = self._queues.requeue(entry, ADDED, why, now)
        return (*removed, *added) if removed else added

    def _update(self, old: Pod, new: Pod, now: float) -> Sequence[Effect]:
        uid = new.metadata.uid
        if old.metadata.uid != uid:
            return (*self._delete(old, now), *self._add(new, self._pod_added, now))
        if uid in self._in_flight:
            self._in_flight.updated(new)
            for change in self._own_updates(old, new):
                self._in_flight.remember(change)
            return ()
        entry = self._entries.get(key(new))
        if entry is None or entry.info.uid != uid:
            return self._add(new, self._pod_came_late, now)
        entry.info = self._pod_infos.of(new, entry.info)
        effects: list[Effect] = [*nominate(entry, nomination_after(entry, old, new))]
        if entry.place is ACTIVE:
            self._queues.active.put(entry.key, self._queues.sort_slot(entry), entry)
        elif entry.place is BACKOFF:
            self._queues.backoff.put(entry)
        else:
            for change in self._own_updates(old, new):
                effects += self._waking.consider(entry, change, now)
                if entry.place is ACTIVE or entry.place is BACKOFF:
                    break
        return effects

    def _own_updates(self, old: Pod, new: Pod) -> Iterator[ClusterChanged]:
        for action in pod_changes(old, new):
            yield ClusterChanged(self.pod_names.updated(action), old, new)

    def _delete(self, pod: Pod, now: float) -> Sequence[Effect]:
        landed = self._in_flight.land(pod.metadata.uid)
        entry = self._entries.get(key(pod)) if landed is None else landed[0]
        if entry is None or entry.info.uid != pod.metadata.uid:
            return ()
        return self._remove(entry, now)

    def _remove(self, entry: Entry, now: float) -> Sequence[Effect]:
        self._queues.move(entry, REMOVED, OUTSIDE, now)
        return nominate(entry, "") if entry.nominated_node else ()

    # ----------------------------------------------------------------------------------- attempts

    def _hand_out(self, now: float) -> Sequence[Effect]:
        """Hands out pods while the cycle waits for one and one is ready."""
        queues = self._queues
        for namespace in tuple(queues.active.behind):
            if not queues.turns.used_up(namespace, now):
                queues.active.put_back(namespace)
        effects: list[Effect] = []
        if queues.gate_reports.unreported:
            effects += queues.gate_reports.report(self._entries)
        if queues.activations.unreported:
            effects += queues.activations.report(self._entries)
        while self._waiting:
            entry = queues.active.peek() or queues.backoff.first()
            if entry is None:
                break
            is_early = entry.place is BACKOFF
            if is_early and queues.active.is_paused(entry.namespace):
                break
            until = queues.turns.waits_until(entry, now)
            if until > now:
                effects.append(queues.defer(entry, until, now))
                continue
            if is_early:
                queues.stories.add(entry.key, StoryStep(now, ACTIVE, POP_FROM_BACKOFF))
            queues.move(entry, POPPED, IN_FLIGHT, now)
            queues.turns.began(entry, now)
            entry.deferred_until = 0.0
            entry.attempts += 1
            entry.unschedulable = entry.pending = NO_PLUGINS
            if entry.skips:
                entry.skips = {}
            pod = QueuedPod(
                entry.info,
                entry.attempts,
                entry.timestamp,
                entry.first_attempt_at,
                entry.flushed,
            )
            effects.append(HandOut(self._waiting.popleft(), pod))
        return effects

    def _failed(self, queued: QueuedPod, failure: Failure, now: float) -> Sequence[Effect]:
        landed = self._in_flight.land(queued.info.uid)
        if landed is None:
            return ()  # It was deleted, or bound by another scheduler, during the attempt.
        entry, latest, missed = landed
        if latest is not None:
            entry.info = self._pod_infos.of(latest, entry.info)
        if entry.key in self._entries or entry.scheduler in self._gone:
            # A new pod of this name is in the queue already, or the pod is ours no more.
            return self._remove(entry, now)
        entry.failed(failure.unschedulable, failure.pending, now, next(self._arrival))
        if entry.restless:
            self._queues.activations.forget_if_quiet(entry, now)
        entry.hold, entry.had_node = failure.hold, failure.had_node
        node = failure.nominated_node
        if node is None:
            node = nomination_after(entry, queued.info.pod, entry.info.pod)
        nominated = nominate(entry, node)
        worth = self._waking.after_attempt(entry, missed, now)
        if worth is None:
            step = StoryStep(now, UNSCHEDULABLE, ATTEMPT_FAILED)
            return (*nominated, self._queues.arrive(entry, FAILED, step))
        return (*nominated, *self._queues.requeue(entry, FAILED, worth, now))

    # -------------------------------------------------------------------------------- preemptions

    def _is_held(self, order: IsHeld) -> bool:
        entry = self._entries.get(order.key)
        return entry is not None and entry.info.uid == order.uid and entry.hold == order.hold

    def _displace(self, info: PodInfo, node: str, now: float) -> Sequence[Effect]:
        """Removes the pod's nomination. Wakes the pod, and the pods that had left the node to
        it.
        """
        entry = self._in_flight.get(info.uid) or self._entries.get(info.key)
        if entry is None or entry.info.uid != info.uid or entry.nominated_node != node:
            return ()  # It is gone, or was nominated to another node meanwhile.
        change = end_of_nomination(entry)
        return (
            *nominate(entry, ""),
            SetNominatedNode(entry.info.pod, ""),
            *self._waking.changed(change, now),
        )

    # ----------------------------------------------------------------------------- all pods at once

    def _use(self, new: UseProfiles, now: float) -> Sequence[Effect]:
        """Uses other profiles. A pod in flight ends its attempt with the profile with which it
        began; if its scheduler name is gone, it does not come back.
        """
        effects: list[Effect] = []
        self._gone = (self._gone - new.hints.keys()) | new.gone
        for entry in list(self._entries.values()):
            if entry.scheduler in self._gone:
                effects += self._remove(entry, now)
        self._queues.use(new)
        return (*effects, *self._waking.try_anew(new.changed, now))

    def _compare(self, order: ComparePending, now: float) -> Sequence[Effect]:
        flying = self._queues.in_flight_by_key()
        different = tuple(sorted(differences(order.pods, self._entries, flying)))
        effects: list[Effect] = []
        for difference in different if order.heal else ():
            entry = self._entries.get(difference.key) or flying.get(difference.key)
            if entry is not None:
                effects += self._delete(entry.info.pod, now)
            pod = order.pods[difference.key]
            if pod is not None:
                effects += self._add(pod, self._pod_added, now)
            effects.append(Healed(difference))
            self._healed += 1
        return (*effects, order.answer(different))

    def statistics(self) -> QueueStatistics:
        return statistics(self._queues, self._healed, len(self._forgotten))

    def measures(self) -> QueueMeasures:
        """Returns the counts for the metrics, as they are now."""
        return measures(self._queues, self.statistics())

    def validate(self) -> None:
        """Raises AssertionError if an invariant does not hold."""
        self._queues.validate()
        assert not (self._waiting and self._queues.active.peek()), "the cycle waits for a pod"
