"""The diagrams that are drawn from the code are the ones on the pages."""

from __future__ import annotations

from tests.docs import actor_diagram, queue_diagram
from tests.docs.blocks import diagram


def test_the_queue_on_the_page_is_drawn_from_its_table() -> None:
    shown = diagram(queue_diagram.KIND).text
    assert shown == queue_diagram.drawn(), "run python -m tests.docs.refresh"


def test_the_actors_on_the_page_are_drawn_from_their_messages() -> None:
    shown = diagram(actor_diagram.KIND).text
    assert shown == actor_diagram.drawn(), "run python -m tests.docs.refresh"
