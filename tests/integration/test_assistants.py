"""`berth mcp` as an assistant's program uses it: with the official SDK's own client.

The SDK is imported by the tests that need it: that takes a second, which the quick tier has not.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from berth.tools.views.commands.mcp import MISSING, mcp
from tests.kit.documents import Document, node, pod

pytestmark = pytest.mark.full("starts processes")

TOOLS = {"explain_pod", "what_if", "why_is_pod", "find_forgotten_pods"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all([node("n1", "2"), pod("small", 1), pod("large", 5)]))
    return path


@asynccontextmanager
async def connected(options: Mapping[str, object], seconds: float = 60) -> AsyncIterator[Any]:
    """Yields a client of a server in this process."""
    from mcp import Client

    from berth.tools.views.commands.mcp_tools import Commands, server_of

    async with Client(server_of(Commands(options, seconds))) as client:
        yield client


async def answer_of(client: Any, tool: str, **arguments: Any) -> Document:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def refusal_of(client: Any, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return getattr(result.content[0], "text", "")


async def test_every_tool_says_that_it_only_reads() -> None:
    async with connected({}) as client:
        tools = (await client.list_tools()).tools
    assert {tool.name for tool in tools} == TOOLS
    for tool in tools:
        assert tool.description
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint


async def test_questions_about_files(file: Path) -> None:
    async with connected({"filename": (str(file),), "server": "https://127.0.0.1:1"}) as client:
        assert (await answer_of(client, "explain_pod", pod="small"))["hosts"] == ["n1"]
        pending = (await answer_of(client, "explain_pod"))["items"]
        assert [each["name"] for each in pending] == ["large", "small"]
        extra = yaml.safe_dump(node("n2", "8"))
        assert (await answer_of(client, "explain_pod", pod="large", manifests=extra))["hosts"] == [
            "n2"
        ]
        answer = await answer_of(client, "what_if", steps=["add 1 like n1", "delete default/large"])
        assert answer["pending"] == []


async def test_what_an_assistant_may_not_ask(file: Path) -> None:
    async with connected({"filename": (str(file),)}) as client:
        refused = await refusal_of(client, "what_if", steps=[f"apply {file}"])
        assert "a step that reads a file; give `manifests` instead" in refused
        refused = await refusal_of(client, "explain_pod", pod="--config=/etc/hostname")
        assert "pod --config=/etc/hostname is not in the cluster" in refused
        refused = await refusal_of(client, "what_if", steps=["--steps=/etc/hostname"])
        assert "'--steps=/etc/hostname': expected one of add," in refused


async def test_a_command_that_does_not_answer_in_time_is_ended(file: Path) -> None:
    async with connected({"filename": (str(file),)}, seconds=0.2) as client:
        assert "no answer within 0.2 s" in await refusal_of(client, "explain_pod", pod="small")


async def test_a_program_starts_the_command_and_speaks_to_it(file: Path) -> None:
    from mcp import Client, StdioServerParameters, stdio_client

    words = ["-m", "berth.actors", "mcp", "-f", str(file), "--emulated-version", "1.36"]
    program = StdioServerParameters(command=sys.executable, args=words)
    async with Client(stdio_client(program)) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
        assert (await answer_of(client, "explain_pod", pod="small"))["hosts"] == ["n1"]
        why = await refusal_of(client, "why_is_pod", pod="small")
        assert "127.0.0.1:10259" in why


def test_long_lists_are_counted() -> None:
    from berth.tools.views.commands.mcp_tools import MOST_ITEMS, shortened

    short: dict[str, Any] = {"a": [1, 2], "b": {"c": "d"}}
    assert shortened(short) == short
    long = {"nodes": {f"n{i}": i for i in range(MOST_ITEMS + 7)}, "pods": [*range(MOST_ITEMS + 2)]}
    answer = shortened(long)
    assert len(answer["nodes"]) == MOST_ITEMS + 1
    assert answer["nodes"]["..."] == "7 more"
    assert answer["pods"][-2:] == [MOST_ITEMS - 1, "... 2 more"]


def test_without_the_sdk_the_command_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if "mcp_tools" in name:
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    result = CliRunner().invoke(mcp, [])
    assert (result.exit_code, result.output) == (1, f"Error: {MISSING}\n")
