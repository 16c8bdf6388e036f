"""What is read from the body of a request."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.kube.yaml_documents import documents
from berth.tools.kubernetes.api.requests.media_types import APPLY
from berth.tools.kubernetes.api.requests.request_content import read_body, repeated_fields
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from tests.kit.call_counts import calls_of


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1.0, "b": 1.5, "c": -0.0, "d": 1e3, "e": 1e400}',
        '{"a": 9223372036854775808, "b": 18446744073709551616, "c": -9223372036854775809}',
        '{"<<": {"a": "yes"}, "b": [null, true, "~", "\\u00e9\\/"]}',
        '{"a": 1, "a": 2}',
        "{a: 1, b: yes}",
    ],
)
def test_json_means_the_same_where_yaml_is_expected(text: str) -> None:
    def read(reader: Any) -> str:
        return repr(reader(text.encode()))

    many: list[Any] = []
    try:
        many = documents(text.encode())
    except ValueError:  # the later of two values counts
        many = [{"a": 2}]
    assert read(lambda raw: read_body(raw, APPLY)) == repr(many[0])


def test_a_half_of_a_character_is_refused_as_by_the_reader_of_yaml() -> None:
    with pytest.raises(RefusedError, match="invalid Unicode character escape code"):
        read_body(b'{"a": "\\ud83d\\ude00"}', APPLY)


def test_large_json_takes_few_steps_where_yaml_is_expected() -> None:
    raw = msgspec.json.encode({"data": {f"key-{number}": "value" for number in range(10_000)}})
    assert calls_of(lambda: read_body(raw, APPLY)) < 100
    assert calls_of(lambda: repeated_fields(raw, APPLY)) < 100
    repeated = b'{"a": 1, "b": {"c": 1, "c": 2}}'
    assert repeated_fields(repeated, APPLY) == [
        'yaml: unmarshal errors:\n  line 1: key "c" already set in map'
    ]
