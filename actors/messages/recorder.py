"""The messages to the recorder."""

from __future__ import annotations

import enum

import msgspec

from ..scheduling.kube.core import Pod
from ..scheduling.kube.meta import ObjectReference


class EventType(enum.StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


class RecordEvent(msgspec.Struct, frozen=True):
    """Write an event about an object, unless it would hold up other work.

    `related` is another object that takes part, such as the preemptor of a victim. An event with
    `action` "" is written in the form of core/v1.
    """

    regarding: ObjectReference
    type: EventType
    reason: str
    action: str
    note: str
    reporting_controller: str
    related: ObjectReference | None = None


class SetUnschedulable(msgspec.Struct, frozen=True):
    """Write the condition PodScheduled=False with this reason and message to the pod's status.

    `nominated_node` is written with it: "" clears the nomination, None leaves it unchanged.
    """

    pod: Pod
    reason: str
    message: str
    nominated_node: str | None = None


class SetNominatedNode(msgspec.Struct, frozen=True):
    """Write the nomination to the pod's status; "" clears it."""

    pod: Pod
    nominated_node: str


class PodBound(msgspec.Struct, frozen=True):
    """The pod is bound: writes to its status that still wait are dropped."""

    uid: str


class RepeatNominations(msgspec.Struct, frozen=True):
    """Some time has passed: write the nominations again that the API server has refused."""


class FinishSeries(msgspec.Struct, frozen=True):
    """Six minutes have passed: end each series without an addition and write its last count."""


class RefreshSeries(msgspec.Struct, frozen=True):
    """Half an hour has passed: write every series, so that it does not expire."""


RecorderMessage = (
    RecordEvent
    | SetUnschedulable
    | SetNominatedNode
    | PodBound
    | RepeatNominations
    | FinishSeries
    | RefreshSeries
)
