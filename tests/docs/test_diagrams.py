"""The diagrams that are drawn from the code are the ones on the pages."""

from __future__ import annotations

from tests.docs import queue_diagram


def test_the_queue_on_the_page_is_drawn_from_its_table() -> None:
    shown = queue_diagram.shown().text
    assert shown == queue_diagram.drawn(), "run python -m tests.docs.refresh"
