"""Which events are written, counted, combined or left out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from berth.tools.kubernetes.objects.event_correlation import COMBINED, Correlator
from berth.tools.kubernetes.objects.structs import Document

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def event(message: str, name: str = "web", **fields: Any) -> Document:
    about = {"kind": "ReplicaSet", "name": name, "namespace": "n", "uid": f"uid-{name}"}
    return {
        "metadata": {"namespace": "n", "generateName": "web-"},
        "involvedObject": about,
        "type": "Normal",
        "reason": "SuccessfulCreate",
        "message": message,
        "source": {"component": "replicaset-controller"},
        **fields,
    }


def written(events: list[Document], each: float = 0.0) -> list[Document]:
    """Returns the documents that are written for events, so many seconds apart."""
    correlator, now, documents = Correlator(), NOW, []
    for number, document in enumerate(events):
        latest = correlator.correlate(document, now + timedelta(seconds=number * each))
        if latest is not None:
            assert latest.is_new == (latest.document["count"] == 1)
            documents.append(latest.document)
    return documents


def test_an_event_that_happens_again_is_counted() -> None:
    first, second, other = written([event("a"), event("a"), event("b")], each=60)
    assert (first["count"], second["count"], other["count"]) == (1, 2, 1)
    assert first["metadata"]["name"] == second["metadata"]["name"] != other["metadata"]["name"]
    assert second["firstTimestamp"] == first["firstTimestamp"] == "2026-01-01T00:00:00Z"
    assert second["lastTimestamp"] == "2026-01-01T00:01:00Z"
    assert first["metadata"]["name"].startswith("web.")


def test_the_tenth_similar_event_and_all_later_ones_become_one() -> None:
    documents = written([event(str(number)) for number in range(14)])
    assert [document["message"] for document in documents[8:]] == ["8"] + [
        f"{COMBINED}{number}" for number in range(9, 14)
    ]
    assert [document["count"] for document in documents[8:]] == [1, 1, 2, 3, 4, 5]
    assert len({document["metadata"]["name"] for document in documents}) == 10
    reasons = [event(str(number), reason=f"R{number}") for number in range(14)]
    assert not any(document["message"].startswith(COMBINED) for document in written(reasons))


def test_events_that_are_far_apart_stay_apart() -> None:
    documents = written([event(str(number)) for number in range(20)], each=601)
    assert all(document["count"] == 1 for document in documents)


def test_an_object_has_a_few_writes_at_once_and_one_in_five_minutes() -> None:
    many = [event("a")] * 5000
    assert [document["count"] for document in written(many)] == list(range(1, 26))
    assert len(written([event("a")] * 40, each=300)) == 40
    assert len(written([event("a")] * 101, each=150)) == 25 + 50
    others = [event("a", name=str(number)) for number in range(100)]
    assert len(written(others)) == 100
    warnings = written([*many, event("a", type="Warning")])
    assert len(warnings) == 26, "warnings are counted apart"


def test_what_is_remembered_is_limited() -> None:
    correlator = Correlator()
    for number in range(5000):
        correlator.correlate(event("a", name=str(number)), NOW)
    again = correlator.correlate(event("a", name="4999"), NOW)
    assert again is not None
    assert again.document["count"] == 2
    forgotten = correlator.correlate(event("a", name="0"), NOW)
    assert forgotten is not None
    assert forgotten.is_new
