"""The feed of the page: what changed, in frames for everybody who looks. Without viewers it rests.

A frame has the last state of each row that changed since the frame before it, so that rows that
change often cost no more than a frame each. Each viewer has a queue of frames; whoever reads so
slowly that it is full is dropped, and begins anew when the browser connects again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

import anyio
import anyio.lowlevel
import msgspec

from berth.actors.runtime.clock import Clock

from .feed_source import Change, NodeGone, PodGone, Source
from .rows import NodeRow, PodRow

FRAME_SECONDS = 0.1
GLANCE_SECONDS = 1.0
MOST_ROWS = 5000  # of a frame
ROWS_AT_FIRST = 500  # of a frame for a new viewer
MOST_WAITING = 300  # frames of a viewer
MOST_VIEWERS = 64


class Frame(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The rows that replace rows of the same name, and the names of deleted rows."""

    nodes: list[NodeRow] = []
    pods: list[PodRow] = []
    gone_nodes: list[str] = []
    gone_pods: list[str] = []


Row = TypeVar("Row")


class TooManyViewersError(Exception):
    """The feed has as many viewers as it can take."""


class Board:
    """The present rows, and the names of the rows that have changed since they were last taken."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeRow] = {}
        self._pods: dict[str, PodRow] = {}
        self._changed_nodes: dict[str, None] = {}
        self._changed_pods: dict[str, None] = {}

    def put(self, change: Change) -> None:
        match change:
            case NodeRow(name):
                if self._nodes.get(name) != change:
                    self._nodes[name] = change
                    self._changed_nodes[name] = None
            case PodRow(key):
                if self._pods.get(key) != change:
                    self._pods[key] = change
                    self._changed_pods[key] = None
            case NodeGone(name):
                if self._nodes.pop(name, None) is not None:
                    self._changed_nodes[name] = None
            case PodGone(key):
                if self._pods.pop(key, None) is not None:
                    self._changed_pods[key] = None

    def take(self) -> Frame | None:
        """Returns at most MOST_ROWS changed rows that no call has returned yet, oldest first and
        nodes before pods; None if there are none.
        """
        nodes = _taken_first(self._changed_nodes, MOST_ROWS)
        pods = _taken_first(self._changed_pods, MOST_ROWS - len(nodes))
        if not nodes and not pods:
            return None
        return Frame(
            [self._nodes[name] for name in nodes if name in self._nodes],
            [self._pods[key] for key in pods if key in self._pods],
            [name for name in nodes if name not in self._nodes],
            [key for key in pods if key not in self._pods],
        )

    def whole(self) -> list[Frame]:
        """Returns all present rows."""
        nodes, pods = list(self._nodes.values()), list(self._pods.values())
        return [
            *(Frame(nodes=part) for part in _parts(nodes)),
            *(Frame(pods=part) for part in _parts(pods)),
        ]


def _parts(rows: list[Row]) -> Iterator[list[Row]]:
    return (rows[i : i + ROWS_AT_FIRST] for i in range(0, len(rows), ROWS_AT_FIRST))


def _taken_first(names: dict[str, None], most: int) -> list[str]:
    """Removes the first names, and returns them."""
    first = list(islice(names, most))
    for name in first:
        del names[name]
    return first


class Viewer:
    """A client of the feed. `scope` is cancelled when the viewer is dropped, so that its events
    end.
    """

    def __init__(self, whole: list[Frame], turn: anyio.Lock) -> None:
        self.scope = anyio.CancelScope()
        self._whole = whole
        self._turn = turn
        self._waiting: deque[bytes] = deque()
        self._news = anyio.Event()

    def offer(self, event: bytes) -> None:
        """Gives the viewer an event, or drops the viewer if it has not read the previous ones."""
        if len(self._waiting) >= MOST_WAITING:
            self.scope.cancel()
            return
        self._waiting.append(event)
        self._news.set()

    async def events(self) -> AsyncGenerator[bytes]:
        """Yields the rows at the beginning, and the changes since."""
        yield event_of("begin", None)
        for frame in self._whole:
            async with self._turn:  # Many may come at once.
                event = event_of("frame", frame)
                await anyio.lowlevel.checkpoint()
            yield event
        while not self.scope.cancel_called:
            while self._waiting:
                yield self._waiting.popleft()
            self._news = anyio.Event()
            await self._news.wait()


class Feed:
    """A follower of a source. It follows only while it has viewers."""

    def __init__(self, source: Source, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._board = Board()
        self._viewers: set[Viewer] = set()
        self._first_frames = anyio.Lock()  # Who has it encodes a frame for a new viewer.
        self._turn = anyio.Event()  # set when the first viewer comes or the last one goes

    @property
    def is_full(self) -> bool:
        return len(self._viewers) >= MOST_VIEWERS

    @contextmanager
    def viewer(self) -> Iterator[Viewer]:
        """Counts a viewer during the block. Raises TooManyViewersError."""
        if self.is_full:
            raise TooManyViewersError
        viewer = Viewer(self._board.whole(), self._first_frames)
        self._viewers.add(viewer)
        if len(self._viewers) == 1:
            self._turn.set()
        try:
            yield viewer
        finally:
            self._viewers.discard(viewer)
            if not self._viewers:
                self._turn.set()

    async def run(self) -> None:
        """Sends frames to viewers until cancelled."""
        while True:
            await self._turn.wait()
            self._turn = anyio.Event()
            if not self._viewers:
                continue
            self._board = Board()
            async with anyio.create_task_group() as group:
                group.start_soon(self._source.follow, self._board.put)
                group.start_soon(self._send_frames)
                group.start_soon(self._send_glances)
                while self._viewers:
                    await self._turn.wait()
                    self._turn = anyio.Event()
                group.cancel_scope.cancel()
            self._board = Board()

    async def _send_frames(self) -> None:
        while True:
            frame = self._board.take()
            if frame is not None:
                self._send(event_of("frame", frame))
            await self._clock.sleep(FRAME_SECONDS)

    async def _send_glances(self) -> None:
        while True:
            self._send(event_of("glance", await self._source.glance()))
            await self._clock.sleep(GLANCE_SECONDS)

    def _send(self, event: bytes) -> None:
        for viewer in self._viewers:
            viewer.offer(event)


def event_of(name: str, data: object) -> bytes:
    """Returns a server-sent event. Its JSON contains no line end."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))
