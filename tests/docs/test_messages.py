"""The index of messages has each reason that the plugins give and that kube-scheduler gave."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import msgspec
import pytest

from tests.docs.blocks import ROOT
from tests.golden import scenarios

PAGE = ROOT / "docs/messages.md"
CATEGORIES = sorted(
    path.name.removesuffix(".jsonl.gz")
    for path in scenarios.DATA.glob("*.jsonl.gz")
    if path.name not in {"configurations.jsonl.gz", "pod_lives.jsonl.gz", "requests.jsonl.gz"}
)
CELL = re.compile(r"`([^`]+)`")
EXTENDED = re.compile(r"Insufficient (?!cpu$).+")


class Row(msgspec.Struct, frozen=True):
    """A row of a table of the page. `evicting` is "" in a table without that column."""

    plugins: frozenset[str]
    evicting: str


def rows(heading: str) -> dict[str, Row]:
    """Returns the rows of a section's table by their message."""
    section = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        message = CELL.search(cells[0])
        if line.startswith("| `") and message:
            evicting = cells[3] if len(cells) == 5 else ""
            table[message[1]] = Row(frozenset(cells[1].split(", ")), evicting)
    return table


def in_the_page(message: str) -> str:
    """Returns a message with the names of its objects replaced by those of the page."""
    if EXTENDED.fullmatch(message):
        return "Insufficient cpu"
    message = re.sub(r'^persistentvolumeclaim "[^"]*"', 'persistentvolumeclaim "data"', message)
    message = re.sub(r'^resourceclaim "[^"]*"', 'resourceclaim "gpu"', message)
    return re.sub(r"^request \S+: device class \S+", "request gpu: device class fast", message)


def recorded(category: str) -> Iterator[dict[str, object]]:
    for scenario in scenarios.load(scenarios.DATA, category):
        if "error" not in scenario["expect"]:
            yield scenario["expect"]


@pytest.mark.parametrize("category", CATEGORIES)
def test_each_recorded_reason_is_in_the_index(category: str) -> None:
    of_nodes, of_pods = rows("Reasons of a node"), rows("Reasons of the pod")
    endings = rows("What was tried to make room")
    for expect in recorded(category):
        for verdict in msgspec.convert(expect["filter"], dict[str, dict[str, object]]).values():
            for reason in msgspec.convert(verdict["reasons"], list[str]):
                row = of_nodes[in_the_page(reason)]
                assert not verdict["plugin"] or verdict["plugin"] in row.plugins
                if verdict["code"] == "Unschedulable":
                    assert row.evicting.startswith("may help"), reason
                elif verdict["reasons"] == [reason] and "unless" not in row.evicting:
                    assert row.evicting == "no", reason
        prefilter = msgspec.convert(expect["prefilter"], dict[str, object] | None)
        if prefilter is not None:
            for reason in msgspec.convert(prefilter["reasons"], list[str]):
                assert prefilter["plugin"] in of_pods[in_the_page(reason)].plugins
        ending = msgspec.convert(expect["preemptionMessage"], str | None)
        if ending is not None:
            messages = {*of_nodes, *endings}
            head, _, tail = ending.partition("preemption: ")
            parts = [head.removesuffix(", ")] if head else []
            counted = re.fullmatch(r"\d+/\d+ nodes are available: ?(.*?)\.?", tail)
            if counted is None:
                parts.append(tail)
            else:
                parts += [re.sub(r"^\d+ ", "", part) for part in counted[1].split(", ") if part]
            assert not {in_the_page(part) for part in parts if part} - messages


def test_each_reason_in_the_code_is_in_the_index() -> None:
    texts = {
        node.value
        for path in (ROOT / "actors/scheduling/plugins").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    reasons = {
        text
        for text in texts
        if text.startswith(("node(s) ", "cannot schedule", "cannot allocate", "cannot fit"))
    }
    assert len(reasons) > 20
    page = rows("Reasons of a node")
    missing = {reason for reason in reasons if not any(key.startswith(reason) for key in page)}
    assert not missing
