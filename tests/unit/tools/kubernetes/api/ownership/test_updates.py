"""Writes and applies with the answers that kube-apiserver 1.36.2 gave, recorded in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest

from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Response
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document

RECORDED = Path(__file__).parent
NAMESPACES = {"recorded_writes": "applied", "recorded_custom_writes": "customized"}


def answer(server: Server, row: Document) -> tuple[int, Any]:
    method, _, path = row["request"].partition(" ")
    path, _, query = path.partition("?")
    headers = {"host": "localhost", "user-agent": "tester/1.0"}
    headers["content-type"] = row.get("type", "application/json")
    body = b"" if row.get("body") is None else msgspec.json.encode(row["body"])
    request = HttpRequest(method, path, dict(parse_qsl(query)), headers, body)
    response = server.answer(request)
    assert isinstance(response, Response)
    return response.status, msgspec.json.decode(response.body)


def comparable(entries: list[Document]) -> bytes:
    """Returns entries without their times, by which they are sorted, in another order."""
    timeless = [
        {key: value for key, value in entry.items() if key not in ("time", "fieldsType")}
        for entry in entries
    ]
    timeless.sort(
        key=lambda entry: (
            entry["manager"],
            entry["operation"],
            entry["apiVersion"],
            entry.get("subresource", ""),
        )
    )
    return msgspec.json.format(msgspec.json.encode(timeless, order="sorted"))


@pytest.mark.parametrize("name", NAMESPACES)
def test_writes_have_the_managers_and_the_conflicts_of_kubernetes(api: Api, name: str) -> None:
    server = Server(api.store)
    namespace = {"metadata": {"name": NAMESPACES[name]}}
    assert answer(server, {"request": "POST /api/v1/namespaces", "body": namespace})[0] == 201
    lines = (RECORDED / f"{name}.jsonl").read_bytes().splitlines()
    for number, line in enumerate(lines, 1):
        row = msgspec.json.decode(line)
        code, document = answer(server, row)
        where = f"line {number}: {row['request']}"
        assert code == row["code"], (where, document)
        if "message" in row:
            assert document["message"] == row["message"], where
            causes = (document.get("details") or {}).get("causes") or []
            assert sorted(cause["field"] for cause in causes) == row.get("fields", []), where
        if "managedFields" in row:
            entries = document["metadata"].get("managedFields", [])
            assert comparable(entries) == comparable(row["managedFields"]), where
            assert sum("time" not in entry for entry in entries) == row.get("untimed", 0), where
        for part in ("data", "spec"):
            assert part not in row or document.get(part) == row[part], where
