"""The entries of managedFields that objects share."""

from __future__ import annotations

from typing import Any

import msgspec

from berth.tools.kubernetes.api.types.api_documents import StoredObject
from berth.tools.kubernetes.api.types.field_entries import compacted_entries


def entry(ip: str, time: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    fields: dict[str, Any] = {
        "f:status": {"f:podIPs": {".": {}, f'k:{{"ip":"{ip}"}}': {".": {}, "f:ip": {}}}}
    }
    return {"manager": "kubelet", "time": time, "fieldsV1": fields}


def test_objects_that_differ_in_their_ips_share_a_template() -> None:
    one, two = compacted_entries([entry("10.0.0.1")]), compacted_entries([entry("10.0.0.2")])
    assert one is not None
    assert two is not None
    assert one.template is two.template
    assert one != two
    assert (one.listed(), two.listed()) == ([entry("10.0.0.1")], [entry("10.0.0.2")])
    assert msgspec.json.decode(two.raw) == two.listed()
    assert compacted_entries([]) is None


def test_entries_may_differ_in_their_times_alone() -> None:
    now, then = (compacted_entries([entry("10.0.0.1", time)]) for time in ("b", "a"))
    assert now is not None
    assert now.differs_in_times(then)
    assert not now.differs_in_times(compacted_entries([entry("10.0.0.2", "a")]))
    assert not now.differs_in_times(None)


def test_the_json_of_an_object_has_its_entries_and_its_document_has_not() -> None:
    document = {"spec": {"metadata": {}}, "metadata": {"name": "a"}}
    stored = StoredObject(document, 1, entries=compacted_entries([entry("10.0.0.1")]))
    whole = {**document, "metadata": {"name": "a", "managedFields": [entry("10.0.0.1")]}}
    assert msgspec.json.decode(stored.raw) == stored.whole == whole
    assert stored.document == document
    assert msgspec.json.decode(msgspec.json.encode(stored.encodable)) == whole
    stored.pack()
    assert (stored.document, stored.whole) == (document, whole)
    read = StoredObject(None, 1, raw=stored.raw)
    assert read.raw == stored.raw
    assert (read.entries, read.document) == (stored.entries, document)
    assert read.raw == stored.raw


def test_an_object_without_entries_has_none() -> None:
    stored = StoredObject({"metadata": {"name": "a"}}, 1)
    assert stored.whole is stored.document
    assert msgspec.json.decode(stored.raw) == stored.document
