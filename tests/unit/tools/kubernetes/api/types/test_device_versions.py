"""Devices and claims in the versions of older programs, which are served on request."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.types.api_documents import Document, RefusedError
from berth.tools.kubernetes.api.types.catalog import Catalog
from berth.tools.kubernetes.api.types.conversion import served_form
from berth.tools.kubernetes.api.types.releases import CURRENT_RELEASE
from berth.tools.kubernetes.api.types.resources import BY_KIND, OLDER_DEVICES, ON_REQUEST, Kind
from berth.tools.kubernetes.api.types.runtime_config import kinds_on_request
from berth.tools.kubernetes.api.writes.registry import Api

GROUP = "resource.k8s.io"
OLDER = {(kind.version, kind.kind): kind for kind in OLDER_DEVICES}
CLAIM: Document = {
    "requests": [
        {"name": "a", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
        {"name": "b", "firstAvailable": [{"name": "c", "deviceClassName": "gpu"}]},
    ]
}
POOL = {"name": "p", "generation": 1, "resourceSliceCount": 1}


@pytest.fixture
def served(api: Api) -> Api:
    """An API server that serves the older versions too."""
    api.store.catalog = Catalog(CURRENT_RELEASE, ON_REQUEST)
    return api


def named(spec: Document) -> Document:
    return {"metadata": {"name": "x"}, "spec": spec}


def create(api: Api, kind: Kind, spec: Document) -> Document:
    return api.create(kind, "default" if kind.namespaced else "", named(spec)).document


def test_a_claim_of_v1beta1_is_stored_as_one_of_v1(served: Api) -> None:
    kind = OLDER["v1beta1", "ResourceClaim"]
    stored = create(served, kind, {"devices": CLAIM})
    first, second = stored["spec"]["devices"]["requests"]
    assert stored["apiVersion"] == f"{GROUP}/v1"
    assert first == {
        "name": "a",
        "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
    }
    assert (second["name"], "exactly" in second) == ("b", False)
    shown = served_form(kind, stored)
    assert shown["apiVersion"] == f"{GROUP}/v1beta1"
    assert shown["spec"]["devices"]["requests"][0] == CLAIM["requests"][0]
    assert served.store.get(BY_KIND[f"{GROUP}/v1", "ResourceClaim"], "default", "x")


def test_a_template_and_a_slice_of_v1beta1_go_both_ways(served: Api) -> None:
    template = OLDER["v1beta1", "ResourceClaimTemplate"]
    stored = create(served, template, {"spec": {"devices": CLAIM}})
    assert stored["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 2
    slices = OLDER["v1beta1", "ResourceSlice"]
    device = {"name": "d", "basic": {"attributes": {"index": {"int": 0}}}}
    spec: dict[str, Any] = {"driver": "a.b", "nodeName": "n", "pool": POOL, "devices": [device]}
    stored = create(served, slices, spec)
    assert stored["spec"]["devices"] == [{"name": "d", "attributes": {"index": {"int": 0}}}]
    assert served_form(slices, stored)["spec"]["devices"] == [device]


def test_v1beta2_has_the_form_of_v1(served: Api) -> None:
    kind = OLDER["v1beta2", "ResourceClaim"]
    request = {"name": "a", "exactly": {"deviceClassName": "gpu"}}
    stored = create(served, kind, {"devices": {"requests": [request]}})
    assert stored["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu"
    assert served_form(kind, stored)["apiVersion"] == f"{GROUP}/v1beta2"


def test_an_older_version_has_the_rules_of_v1(served: Api) -> None:
    kind = OLDER["v1beta1", "ResourceClaim"]
    with pytest.raises(RefusedError, match=r"spec\.devices\.requests\[0\]"):
        create(served, kind, {"devices": {"requests": [{"name": "a"}]}})


@pytest.mark.parametrize(
    ("settings", "versions"),
    [
        ([], set()),
        (["resource.k8s.io/v1beta1"], {"v1beta1"}),
        (["resource.k8s.io/v1beta1=true", "resource.k8s.io/v1beta2=false"], {"v1beta1"}),
        (["api/beta=true"], {"v1beta1", "v1beta2"}),
        (["api/all=true", "resource.k8s.io/v1beta1=false"], {"v1beta2", "v1alpha2"}),
        (["scheduling.k8s.io/v1alpha2=true"], {"v1alpha2"}),
        (["apps/v1=true"], set()),
    ],
)
def test_the_versions_that_are_asked_for(settings: list[str], versions: set[str]) -> None:
    assert {kind.version for kind in kinds_on_request(settings)} == versions


@pytest.mark.parametrize("setting", ["apps/v1=false", "no.such/v1", "api/all=maybe"])
def test_a_setting_that_cannot_be_followed(setting: str) -> None:
    with pytest.raises(ValueError, match=setting.partition("=")[0]):
        kinds_on_request([setting])
