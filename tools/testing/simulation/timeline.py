"""The time line of a story: writes, requests, watch events, faults, and what the actors of the
schedulers log of queues and attempts.

It follows a story and changes nothing in it: the digest is the same with it and without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from berth.actors.scheduling.framework.logger import DEBUG, Fields, Level, output, use_output

from ...kubernetes.api.store import StoreEvent
from ...kubernetes.api.types.resources import Kind
from ..scheduler import CURRENT_HOST

MOST_ENTRIES = 100_000
# Fields of a log line that name what it is about; the first that is there does.
_ABOUT = ("pod", "node", "object", "path", "claim")
_UNSAID = ("event", "v", "log_level", "exc_info")


class TimelineEntry(msgspec.Struct, frozen=True):
    """What happened at a second of the story: `lane` says where, `about` names the object."""

    at: float
    lane: str
    about: str
    text: str


class Timeline:
    """Collects the entries of a story, up to MOST_ENTRIES; the last ones are `left_out`."""

    def __init__(self) -> None:
        self._now: Callable[[], float] = lambda: 0.0
        self.entries: list[TimelineEntry] = []
        self.left_out = 0
        self.verbosity = DEBUG

    def follow(self, now: Callable[[], float]) -> Timeline:
        """Follows a story whose clock gives these seconds."""
        self._now = now
        return self

    def add(self, lane: str, about: str, text: str) -> None:
        if len(self.entries) >= MOST_ENTRIES:
            self.left_out += 1
        else:
            self.entries.append(TimelineEntry(round(self._now(), 3), lane, about, text))

    def note(self, kind: Kind, event: StoreEvent) -> None:
        """Takes a write, as an observer of a Cluster."""
        if event.renews or event.is_heartbeat:
            return
        metadata = event.after.document["metadata"]
        about = f"{metadata.get('namespace', '')}/{metadata['name']}".lstrip("/")
        self.add("write", about, f"{event.type} {kind.kind}, revision {event.after.revision}")

    @contextmanager
    def logged(self) -> Iterator[None]:
        """During the block, the lines of all logs are entries."""
        before = output()
        use_output(self)
        try:
            yield
        finally:
            use_output(before)

    def level_of(self, _module: str) -> Level:
        return self

    def tell(self, module: str, _level: str, fields: Fields) -> None:
        if "child" in fields:  # an actor has started or stopped
            return
        about = next((str(fields[name]) for name in _ABOUT if name in fields), "")
        said = (f"{k}={v}" for k, v in fields.items() if k not in (*_UNSAID, *_ABOUT) and v != "")
        host = CURRENT_HOST.get()
        actor = _actor(module)
        self.add(
            f"{host} {actor}" if host else actor, about, " ".join((str(fields["event"]), *said))
        )


def _actor(module: str) -> str:
    """Returns the folder of an actor, or the last part of another module's name."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["berth", "actors"] and len(parts) > 2 else parts[-1]
