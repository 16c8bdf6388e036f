"""The tables of flags in the documentation, made from the table that `berth run` reads."""

from __future__ import annotations

from berth.actors.cli.flags.flag import Flag
from berth.actors.cli.flags.table import GROUPS
from tests.docs.blocks import ROOT

PAGE = ROOT / "docs/configuration.md"
FIRST, NEXT = "### Misc flags\n", "\n## Health and metrics\n"


def tables() -> str:
    """Returns a heading and a table for each group."""
    return "\n".join(
        "\n".join(
            (
                f"### {title} flags\n",
                "| flag | default | meaning |",
                "| --- | --- | --- |",
                *map(_row, flags),
                "",
            )
        )
        for title, flags in GROUPS.items()
    )


def refresh() -> None:
    before, _, rest = PAGE.read_text().partition(FIRST)
    after = rest.partition(NEXT)[2]
    PAGE.write_text(f"{before}{tables()}{NEXT}{after}")


def _row(flag: Flag) -> str:
    short = "`-v`, " if flag.name == "v" else ""
    default = f" `{flag.default_text}`" if flag.default_text else ""
    meaning = flag.meaning.replace("|", "\\|")
    return f"| {short}`--{flag.name}` |{default} | {meaning} |"
