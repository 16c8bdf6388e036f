"""What the API server serves as an older or a newer version of Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from berth.config.versions import CURRENT, VERSIONS
from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Response
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.types.catalog import Catalog
from berth.tools.kubernetes.api.types.discovery import discovery
from berth.tools.kubernetes.api.types.openapi import document as openapi
from berth.tools.kubernetes.api.types.releases import release_of
from berth.tools.kubernetes.api.types.schema import compiled
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import pod
from tests.kit.stores import fresh_store

OLD, NEW = release_of(VERSIONS[36]), release_of(VERSIONS[37])
RULES = "/apis/resource.k8s.io/v1/devicetaintrules"


def served_by(minor: int) -> Api:
    api = Api(fresh_store(), "Warn")
    api.store.release = release_of(VERSIONS[minor])
    api.seed()
    return api


def answered(server: Server, method: str, path: str, body: bytes = b"") -> Response:
    answer = server.answer(HttpRequest(method, path, {}, {"host": "localhost"}, body))
    assert isinstance(answer, Response)
    return answer


def test_a_field_has_its_first_and_its_last_version() -> None:
    text = "[core/v1]\nA old:string=1,until=1.36 new:string=2,min=0,since=1.37 both:string=3\n"
    assert {*(compiled(text)["A"].fields or ())} == {"old", "new", "both"}
    assert {*(compiled(text, 36)["A"].fields or ())} == {"old", "both"}
    newer = compiled(text, 37)["A"].fields or {}
    assert {*newer} == {"new", "both"}
    assert newer["new"].marks == ("min=0",)
    text = "[a/v1]\nA b:string\n[new/v1,since=1.37]\nB c:string\n    d:string\n[a/v1]\nC e:int32\n"
    assert {*compiled(text, 36)} == {"A", "C"}
    assert compiled(text, 37)["B"].api_version == "new/v1"


@pytest.mark.parametrize(
    ("minor", "warnings"), [(36, ['unknown field "spec.evictionResponders"']), (37, [])]
)
def test_a_field_of_another_version_is_left_out_with_a_warning(
    minor: int, warnings: list[str]
) -> None:
    responders = [{"name": "a.example/b", "priority": 1}]
    api = served_by(minor)
    kind = next(kind for kind in api.store.release.served if kind.kind == "Pod")
    api.create(kind, "default", pod("p", evictionResponders=responders))
    stored = api.store.get(kind, "default", "p")["spec"]
    assert api.warnings == warnings
    assert stored.get("evictionResponders") == (None if warnings else responders)


def test_a_field_that_is_gone_is_unknown() -> None:
    fields: dict[str, Any] = NEW.types["Device"].fields or {}
    assert "nodeAllocatableResources" in fields
    assert "nodeAllocatableResourceMappings" not in fields


@pytest.mark.parametrize(("minor", "code"), [(36, 404), (37, 200)])
def test_a_kind_of_a_newer_version_is_not_there(minor: int, code: int) -> None:
    server = Server(served_by(minor).store)
    assert answered(server, "GET", RULES).status == code
    names = answered(server, "GET", "/apis/resource.k8s.io/v1").body
    assert (b"devicetaintrules" in names) == (code == 200)


@pytest.mark.parametrize("release", [OLD, NEW])
def test_the_server_tells_its_version(release: Any) -> None:
    version, catalog = release.version, Catalog(release)
    told = discovery("/version", catalog) or {}
    assert (told["minor"], told["gitVersion"]) == (str(version.minor), version.release)
    described = openapi("/openapi/v3/api/v1", catalog) or {}
    assert described["info"]["version"] == version.release
    pods = described["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]
    assert ("evictionResponders" in pods) == (version.minor >= 37)


def test_the_default_is_the_newest_complete_version() -> None:
    assert fresh_store().release is release_of(CURRENT)
    forked = served_by(37).store.fork()
    assert forked.release is NEW
