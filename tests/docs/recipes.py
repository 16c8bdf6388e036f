"""The recipes of docs/plugins.md: the plugins that new packages begin with."""

from __future__ import annotations

from berth.tools.testing.plugin_commands.plugin_kinds import KINDS
from berth.tools.testing.plugin_commands.plugin_source import plugin_source
from tests.docs.blocks import PLUGINS, Block, blocks

FOLDER = "recipes/"


def shown() -> list[Block]:
    return [block for block in blocks(PLUGINS, "python") if block.title.startswith(FOLDER)]


def kind_of(block: Block) -> str:
    return block.title.removeprefix(FOLDER).removesuffix(".py").replace("_", "-")


def source(block: Block) -> str:
    """Returns what the block is to show."""
    kind = kind_of(block)
    return plugin_source(kind, KINDS[kind].__name__)


def refresh() -> None:
    text = PLUGINS.read_text()
    for block in shown():
        text = text.replace(block.text, source(block))
    PLUGINS.write_text(text)
