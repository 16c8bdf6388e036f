"""The application of `berth top`: draws the views twice a second, and acts on keys."""

from __future__ import annotations

import time
from asyncio import sleep
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from .cluster_model import ClusterModel, Event
from .columns import Line, wrapped_lines
from .listing import Lines, Listing
from .view_source import LostError, ViewSource
from .views import ROOTS, Help, Nodes, StoryOf, View, status_line

DRAW_SECONDS = 0.5
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 10.0  # seconds between attempts to connect
LOW = 16  # a terminal with fewer lines shows one of those above a table
KEYS = "1 cluster  2 queue  3 pods  4 health  ? keys  q quit  / filter"
# The words after a colon, besides the titles of the views; as in k9s.
WORDS = {"no": "1", "node": "1", "nodes": "1", "po": "3", "pod": "3"}
QUIT_WORDS = ("q", "q!", "quit")


class Top(App[None]):
    """Four views of a cluster. `notes` are lines that are always shown. `problem` says why there
    was never a connection; the application then ends.
    """

    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = "Listing"
    CSS = """
    Screen { background: ansi_default; color: ansi_default; }
    #search { display: none; height: 1; border: none; padding: 0; background: ansi_default; }
    #search.open { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"show('{key}')") for key in ROOTS),
        Binding("slash", "search"),
        Binding("colon", "name"),
        Binding("escape", "leave", priority=True),
        Binding("question_mark", "keys"),
        Binding("r", "again"),
        Binding("q", "quit"),
        Binding("ctrl+c", "quit", priority=True),
    ]

    def __init__(
        self,
        watched: ViewSource,
        cluster: ClusterModel,
        notes: Sequence[str] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(ansi_color=True)
        self.problem = ""
        self._watched = watched
        self._cluster = cluster
        self._notes = notes
        self._now = now
        self._stack: list[View] = [Nodes()]
        self._search = ""
        self._naming = False  # whether the input is the name of a view, not a filter
        self._pause = FIRST_PAUSE / 2
        self._drawn: tuple[object, ...] = ()
        self._shown_state: tuple[str, str, str] | None = None  # the state whose story is shown

    def compose(self) -> ComposeResult:
        yield Lines("strip")
        yield Lines("notes")
        yield Lines("head")
        yield Listing()
        yield Input(id="search", compact=True)
        yield Lines("keys")

    def on_mount(self) -> None:
        self.set_interval(DRAW_SECONDS, self._draw)
        self.run_worker(self._follow(), group="follow")
        self.call_after_refresh(self._draw)

    async def _follow(self) -> None:
        """Takes the events of the cluster until the application ends."""
        while True:
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            try:
                await self._watched.watch(self._take)
            except LostError as lost:
                if self._cluster.heard is None:
                    self.problem = str(lost)
                    self.exit()
                    return
                self._cluster.lose(str(lost), self._now())
            await sleep(self._pause)

    def _take(self, event: Event) -> None:
        self._pause = FIRST_PAUSE
        self._cluster.take(event, self._now())

    @property
    def _view(self) -> View:
        return self._stack[-1]

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        cluster, now, view = self._cluster, self._now(), self._view
        width, height = self.size
        if isinstance(view, StoryOf):
            state = view.state(cluster)
            if state is not None and self._shown_state not in (None, state):
                self._show_story(view)
            self._shown_state = state or self._shown_state
        self._put("strip", [(("berth  ", "strong"), *status_line(cluster, now))])
        self._put("notes", list(wrapped_lines((((note, ""),) for note in self._notes), width)))
        self._put("head", view.head(cluster, now)[: None if height >= LOW else 1])
        listing = self.query_one(Listing)
        drawn = (view, cluster.version, self._search, width, getattr(view, "told", None))
        if drawn != self._drawn:
            self._drawn = drawn
            rows = view.rows(cluster, self._search.lower(), now, width)
            listing.fill(view.columns, rows, self._cells)
        else:
            listing.refresh()
        where = " > ".join(each.title for each in self._stack)
        searched = f"  /{self._search}" if self._search else ""
        place: Line = ((f"{where} {listing.place()}{searched}", "strong"),)
        self._put("keys", [place, ((KEYS, "dim"),)])

    def _cells(self, row: str | Line) -> Line:
        if isinstance(row, str):
            return self._view.cells(self._cluster, row, self._now())
        return row

    def _put(self, name: str, lines: Sequence[Line]) -> None:
        self.query_one(f"#{name}", Lines).put(lines)

    def _open_view(self, stack: list[View]) -> None:
        self._stack = stack
        self._search = ""
        self._close_search()
        self.query_one(Listing).begin()
        self._shown_state = None
        if isinstance(self._view, StoryOf) and self._view.told is None:
            self._show_story(self._view)
        self._draw()

    def _show_story(self, view: StoryOf) -> None:
        self.run_worker(self._ask(view), group="story", exclusive=True)

    async def _ask(self, view: StoryOf) -> None:
        try:
            view.told = await self._watched.story(view.key)
            view.problem = "There is no such pod now."
        except LostError as lost:
            view.problem = f"The story could not be read: {lost}"
        self._drawn = ()
        self._draw()

    def on_listing_opened(self, message: Listing.Opened) -> None:
        view = self._view.into(message.row)
        if view is not None:
            self._open_view([*self._stack, view])

    def on_input_changed(self, message: Input.Changed) -> None:
        if not self._naming:
            self._search = message.value
            self._draw()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        named = self._naming
        self._close_search()
        if not named:
            return
        word = message.value.strip().lower()
        titles = {view().title: key for key, view in ROOTS.items()}
        if word in QUIT_WORDS:
            self.exit()
        elif word and (key := (titles | WORDS).get(word)):
            self.action_show(key)
        elif word:
            self.bell()

    def _close_search(self) -> None:
        search = self.query_one(Input)
        self._naming = False
        with search.prevent(Input.Changed):
            search.value = self._search
        search.remove_class("open")
        self.query_one(Listing).focus()

    def action_show(self, key: str) -> None:
        self._open_view([ROOTS[key]()])

    def action_keys(self) -> None:
        if not isinstance(self._view, Help):
            self._open_view([*self._stack, Help()])

    def action_search(self) -> None:
        self._open_search("filter")

    def action_name(self) -> None:
        self._naming = True
        with (search := self.query_one(Input)).prevent(Input.Changed):
            search.value = ""
        self._open_search("cluster, queue, pods, health or q")

    def _open_search(self, placeholder: str) -> None:
        search = self.query_one(Input)
        search.placeholder = placeholder
        search.add_class("open")
        search.focus()

    def action_leave(self) -> None:
        """Leaves the filter, or else the view."""
        if self._naming:
            self._close_search()
        elif self._search or self.query_one(Input).has_focus:
            self._search = ""
            self._close_search()
            self._draw()
        elif len(self._stack) > 1:
            self._open_view(self._stack[:-1])

    def action_again(self) -> None:
        if isinstance(self._view, StoryOf):
            self._show_story(self._view)
