"""The tables of a demo."""

from __future__ import annotations

import pytest
from rich.console import Console

from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.demo.placements import Placements, Row, Summary
from berth.tools.testing.demo.tables import closing_lines, live_view, pods_table, progress_line
from tests.unit.tools.testing.demo.test_placements import pod

PLACED = Row("default", "web-0", "node-1", "Running", "")


def test_the_reason_has_a_column_only_if_a_pod_is_pending() -> None:
    pending = Row("default", "web-1", "", "Pending", "no room")
    headers = [
        [column.header for column in pods_table(rows, len(rows)).columns]
        for rows in ([PLACED], [PLACED, pending])
    ]
    assert headers == [
        ["namespace", "name", "node", "phase"],
        ["namespace", "name", "node", "phase", "why not running"],
    ]


def placements(nodes: int, pods: int) -> Placements:
    shown = Placements()
    for number in range(1, nodes + 1):
        shown.put("Node", hollow_node(number), 0.0)
    for number in range(pods):
        shown.put("Pod", pod(f"placed-{number}", "node-1", "Running"), 0.0)
    shown.put("Pod", pod("waiting", why="a long reason " * 20), 0.0)
    return shown


def lines(shown: Placements, width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, record=True)
    with console.capture() as capture:
        console.print(live_view(shown, 1.0, height))
    return capture.get().splitlines()


@pytest.mark.parametrize(
    ("nodes", "pods", "width", "height"),
    [(6, 12, 80, 24), (17, 40, 80, 24), (1000, 5000, 200, 60), (3, 2, 80, 24), (50, 50, 60, 12)],
)
def test_the_live_view_fits_the_terminal(nodes: int, pods: int, width: int, height: int) -> None:
    seen = lines(placements(nodes, pods), width, height)
    assert len(seen) < height
    assert "waiting" in "".join(seen)
    assert "node-1" in "".join(seen)


def test_at_80_by_24_thirteen_pods_are_shown_beside_six_nodes() -> None:
    seen = "\n".join(lines(placements(6, 12), 80, 24))
    assert all(f"placed-{number}" in seen for number in range(12))


def test_what_does_not_fit_is_counted() -> None:
    seen = "\n".join(lines(placements(1000, 5000), 80, 24))
    assert "and 997 more" in seen
    assert "and 4,988 more" in seen


def test_the_progress_in_words() -> None:
    line = "placing 12 / 13, 0/s, 1 unschedulable"
    assert progress_line(placements(1, 12), 0.0) == line


def test_failed_pods_are_counted_apart() -> None:
    shown = placements(1, 2)
    shown.put("Pod", pod("refused", "node-1", "Failed"), 0.0)
    assert progress_line(shown, 0.0) == "placing 2 / 4, 0/s, 1 unschedulable, 1 failed"
    assert closing_lines(shown.summary())[0] == "2 placed, 1 pending, 1 failed in 0.0 s (0/s)"


def test_the_end_in_words() -> None:
    summary = placements(3, 2).summary()
    assert closing_lines(summary) == [
        "2 placed, 1 pending in 0.0 s (0/s)",
        "pods by zone: zone-a 2",
        "fullest nodes: node-1 (2 pods, cpu 50%, memory 50%)",
        "requested of all nodes: cpu 16.7%, memory 16.7%",
    ]
    assert "fullest nodes: node-1 (1 pod, cpu" in closing_lines(placements(2, 1).summary())[2]
    assert closing_lines(Summary([], 0, 0, 0.0, {}, [], {})) == [
        "0 placed, 0 pending in 0.0 s (0/s)"
    ]
