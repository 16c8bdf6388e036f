"""The form of an answer that an Accept header prefers, as kube-apiserver negotiates it."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.api.requests.accepted_forms import (
    AcceptedForm,
    accepted_form,
    stream_type,
)
from berth.tools.kubernetes.api.types.api_documents import RefusedError

JSON, YAML = "application/json", "application/yaml"
PROTO = "application/vnd.kubernetes.protobuf"
TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io"
PART = f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
GROUPS = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", AcceptedForm(JSON)),
        ("*/*", AcceptedForm(JSON)),
        (f"{JSON}; charset=utf-8", AcceptedForm(JSON)),
        (YAML, AcceptedForm(YAML)),
        (f"application/cbor, {JSON}", AcceptedForm(JSON)),
        (f"application/vnd.kubernetes.protobuf,{JSON}", AcceptedForm(JSON)),
        (f"{YAML};q=0.5,{JSON};q=0.9", AcceptedForm(JSON)),
        (f"{TABLE},{JSON}", AcceptedForm(JSON, "Table", "v1")),
        (f"{TABLE.replace('v=v1', 'v=v7')},{JSON}", AcceptedForm(JSON)),
        (TABLE.replace("v=v1", "v=v1beta1"), AcceptedForm(JSON, "Table", "v1beta1")),
        (f"{JSON};as=Other;v=v1;g=meta.k8s.io,{JSON}", AcceptedForm(JSON)),
        (PART, AcceptedForm(JSON, "PartialObjectMetadata", "v1")),
        (f"{GROUPS},{JSON}", AcceptedForm(JSON)),
        (f"{PART.replace(JSON, PROTO)},{PART}", AcceptedForm(PROTO, "PartialObjectMetadata", "v1")),
        (f"{TABLE.replace(JSON, PROTO)},{JSON}", AcceptedForm(JSON)),
    ],
)
def test_the_first_form_of_the_best_quality_is_taken(accept: str, form: AcceptedForm) -> None:
    assert accepted_form(accept) == form


def test_the_list_of_groups_is_a_form_of_groups_alone() -> None:
    assert accepted_form(f"{GROUPS},{JSON}", of_groups=True).as_kind == "APIGroupDiscoveryList"
    assert accepted_form(f"{TABLE},{JSON}", of_groups=True) == AcceptedForm(JSON)


def test_a_stream_is_in_protobuf_for_who_accepts_nothing_else() -> None:
    part = PART.replace(JSON, PROTO)
    for accept in (f"{part},{PART}", f"{PROTO},{JSON}", f"{PROTO};stream=watch,*/*"):
        assert accepted_form(accept, streams=True).media_type == JSON
        assert stream_type(accept) == JSON
    assert accepted_form(part, streams=True) == AcceptedForm(PROTO, "PartialObjectMetadata", "v1")
    for accept in (part, PROTO, f"{PROTO};stream=watch"):
        assert stream_type(accept) == f"{PROTO};stream=watch"


def test_what_has_no_table_is_refused_as_one() -> None:
    assert accepted_form(f"{TABLE},{JSON}", tables=False) == AcceptedForm(JSON)
    with pytest.raises(RefusedError, match="only the following media types are accepted"):
        accepted_form(TABLE, tables=False)


@pytest.mark.parametrize(
    ("accept", "message"),
    [
        ("application/cbor", "406: Not Acceptable\n\nAvailable representations: application/json"),
        ("text/html", "406: Not Acceptable"),
        (TABLE.replace("v=v1", "v=v7"), "only the following media types are accepted"),
    ],
)
def test_a_client_that_accepts_nothing_that_there_is_gets_406(accept: str, message: str) -> None:
    with pytest.raises(RefusedError) as refused:
        accepted_form(accept)
    assert (refused.value.code, refused.value.reason) == (406, "NotAcceptable")
    assert str(refused.value).startswith(message)


def test_a_watch_is_never_in_yaml() -> None:
    assert stream_type(TABLE) == JSON
    with pytest.raises(RefusedError, match="application/json;stream=watch"):
        stream_type(YAML)
