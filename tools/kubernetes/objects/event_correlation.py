"""Limits repeated events, as client-go's EventCorrelator does.

An event that happens again is counted. Of events about one object that differ only in their
messages, the tenth in ten minutes and all later ones become one. An object has 25 writes of events
by each reporter, and one more in five minutes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

import msgspec

from berth.actors.scheduling.kube.times import rfc3339

from .structs import Document

SIMILAR, WITHIN = 10, timedelta(minutes=10)
BURST, SECONDS_PER_WRITE = 25, 300.0
REMEMBERED = 4096
COMBINED = "(combined from similar events): "
V = TypeVar("V")


class Occurrence(msgspec.Struct, frozen=True):
    """An event to write: either a new event, or an earlier one with a higher count."""

    document: Document
    is_new: bool


class _Latest(OrderedDict[Hashable, V], Generic[V]):
    """A dictionary of bounded size that keeps the values set last."""

    def __setitem__(self, key: Hashable, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > REMEMBERED:
            self.popitem(last=False)


class Correlator:
    def __init__(self) -> None:
        self._similar: _Latest[tuple[dict[str, None], datetime]] = _Latest()  # messages, the last
        self._seen: _Latest[tuple[str, str, int]] = _Latest()  # name, first time, count
        self._left: _Latest[tuple[float, datetime]] = _Latest()  # writes, since
        self._numbers = 0

    def correlate(self, event: Document, now: datetime) -> Occurrence | None:
        """Returns the event to write for an event; None if there are too many events about its
        object.
        """
        about, source = event["involvedObject"], event["source"]
        reporter = source["component"], source.get("host"), event["type"]
        place = reporter, about["kind"], about.get("namespace"), about["name"], about["uid"]
        reason, message = (place, event["reason"]), event["message"]
        key: Hashable = (reason, about.get("fieldPath"), message)
        if self._is_one_of_many(reason, message, now):
            key, message = reason, COMBINED + message
        name, first, count = self._seen.get(key, ("", rfc3339(now), 0))
        if not name:
            self._numbers += 1
            prefix, number = about["name"][:220], int(now.timestamp() * 1e6) * 1000 + self._numbers
            name = f"{prefix}.{number:x}"
        self._seen[key] = name, first, count + 1
        if not self._may_write(place, now):
            return None
        metadata = {"namespace": event["metadata"]["namespace"], "name": name}
        times = {"firstTimestamp": first, "lastTimestamp": rfc3339(now), "count": count + 1}
        return Occurrence({**event, "metadata": metadata, "message": message, **times}, count == 0)

    def _is_one_of_many(self, reason: Hashable, message: str, now: datetime) -> bool:
        messages, last = self._similar.get(reason, ({}, now))
        if now - last > WITHIN:
            messages = {}
        messages[message] = None
        self._similar[reason] = messages, now
        if len(messages) < SIMILAR:
            return False
        del messages[next(iter(messages))]
        return True

    def _may_write(self, place: Hashable, now: datetime) -> bool:
        left, since = self._left.get(place, (float(BURST), now))
        left = min(left + max((now - since).total_seconds(), 0.0) / SECONDS_PER_WRITE, BURST)
        self._left[place] = (left - 1 if left >= 1 else left), now
        return left >= 1
