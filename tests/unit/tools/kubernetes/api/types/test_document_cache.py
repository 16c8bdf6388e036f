"""Recall remembers the results for documents."""

from __future__ import annotations

from typing import Any

from berth.tools.kubernetes.api.types.document_cache import MOST, MOST_BYTES, cached_by_document


def test_each_distinct_document_is_computed_once() -> None:
    seen: list[dict[str, Any]] = []

    @cached_by_document
    def worked_out(document: dict[str, Any]) -> str:
        seen.append(document)
        return repr(document)

    documents: list[dict[str, Any]] = [
        {"a": 1},
        {"a": 1.0},
        {"a": True},
        {"a": "1"},
        {"a": None},
        {"a": [1]},
        {},
    ]
    for _ in range(2):
        assert [worked_out(document) for document in documents] == [
            repr(document) for document in documents
        ]
    assert len(seen) == len(documents)


def test_documents_that_cannot_be_compared_are_not_remembered_and_the_oldest_is_forgotten() -> None:
    calls = 0

    @cached_by_document
    def worked_out(document: dict[str, Any]) -> int:
        nonlocal calls
        calls += 1
        return calls

    assert [worked_out({"a": 10**30}) for _ in range(2)] == [1, 2]
    for number in (*range(MOST + 1), 0):
        worked_out({"a": number})
    assert calls == 2 + MOST + 2


def test_long_documents_are_not_remembered() -> None:
    calls = 0

    @cached_by_document
    def worked_out(document: dict[str, Any]) -> int:
        nonlocal calls
        calls += 1
        return calls

    for _ in range(2):
        worked_out({"a": "x" * MOST_BYTES})
    assert calls == 2
