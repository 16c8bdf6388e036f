"""The tables of `berth demo`."""

from __future__ import annotations

from berth.tools.demo.command import Row, pods_table

PLACED = Row("default", "web-0", "node-1", "Running", "")


def test_the_reason_has_a_column_only_if_a_pod_is_pending() -> None:
    pending = Row("default", "web-1", "", "Pending", "no room")
    headers = [
        [column.header for column in pods_table(rows).columns]
        for rows in ([PLACED], [PLACED, pending])
    ]
    assert headers == [
        ["namespace", "name", "node", "phase"],
        ["namespace", "name", "node", "phase", "why it is pending"],
    ]
