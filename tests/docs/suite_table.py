"""The table of other people's suites in the documentation, made from their list."""

from __future__ import annotations

from tests.docs.blocks import ROOT
from tests.peers.suites import SUITES
from tests.peers.verdicts import COLUMNS, documented

PAGE = ROOT / "docs/apiserver.md"


def table() -> str:
    return documented(SUITES) + "\n"


def refresh() -> None:
    before, _, rest = PAGE.read_text().partition(COLUMNS)
    PAGE.write_text(f"{before}{table()}{rest.partition(chr(10) * 2)[2]}")
