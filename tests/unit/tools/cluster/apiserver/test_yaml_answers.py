"""Answers in YAML, which are written in pieces."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from berth.tools.cluster.apiserver.answer_forms import MOST_PLAIN, YAML_PIECE, in_yaml
from berth.tools.cluster.apiserver.http import Response
from berth.tools.kubernetes.api.requests.request import HttpRequest
from tests.kit.documents import pod

REQUEST = HttpRequest("GET", "/", {}, {"accept": "application/yaml"}, b"")
WHOLE = yaml.dump
MANY = 3 * YAML_PIECE + 1


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "PodList", "items": [pod(f"p{n}", cpu="1") for n in range(MANY)], "metadata": {}},
        {"data": {f"k{n}": "é word " * n for n in reversed(range(MANY))}, "apiVersion": "v1"},
        {"y": [None] * MANY, "null": {str(n): [n] for n in range(MANY)}, "a\nb": [1]},
        {"items": [], "metadata": {"name": "yes", "labels": {}}, "k" * 200: ["x"] * MANY},
        {},
        [1, "a"],
    ],
)
def test_the_pieces_are_the_whole(document: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def dump(value: Any, **options: Any) -> Any:
        sizes.extend([len(each) for key, each in _fields(value) if len(key) < MOST_PLAIN])
        return WHOLE(value, **options)

    monkeypatch.setattr(yaml, "dump", dump)
    answer = in_yaml(REQUEST, Response(msgspec.json.encode(document)))
    assert answer.body.decode() == WHOLE(document, Dumper=yaml.CSafeDumper, allow_unicode=True)
    assert max(sizes, default=0) <= YAML_PIECE


def _fields(value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        return []
    return [(key, each) for key, each in value.items() if isinstance(each, list | dict)]
