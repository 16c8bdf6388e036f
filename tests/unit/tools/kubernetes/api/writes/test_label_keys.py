"""The API server adds the labels that the terms of a new pod name by key to their selectors."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

PODS = BY_KIND["v1", "Pod"]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEB = {"matchLabels": {"app": "web"}}
TERM = {"topologyKey": "zone", "labelSelector": WEB}
SPREAD = {**TERM, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}


def created(spec: Document) -> Document:
    """Returns the spec of a pod with the labels app and rev, as the API server stores it."""
    api = Api(fresh_store())
    api.create(BY_KIND["v1", "Namespace"], "", {"metadata": {"name": "default"}})
    metadata = {"name": "p", "labels": {"app": "web", "rev": "2"}}
    containers = [{"name": "c", "image": "i"}]
    document = {"metadata": metadata, "spec": {"containers": containers, **spec}}
    spec_of: Document = api.create(PODS, "default", document).document["spec"]
    return spec_of


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_terms_of_affinity(kind: str) -> None:
    written = [{"key": "x", "operator": "Exists"}]
    selector = {**WEB, "matchExpressions": written}
    keys = {"matchLabelKeys": ["rev", "missing"], "mismatchLabelKeys": ["app"]}
    term = {**TERM, "labelSelector": selector, **keys}
    affinity = {REQUIRED: [term, TERM], PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}
    stored = created({"affinity": {kind: affinity}})["affinity"][kind]
    added = [
        {"key": "rev", "operator": "In", "values": ["2"]},
        {"key": "app", "operator": "NotIn", "values": ["web"]},
    ]
    full = {**term, "labelSelector": {**WEB, "matchExpressions": [*written, *added]}}
    assert stored[REQUIRED] == [full, TERM]
    assert stored[PREFERRED] == [{"weight": 1, "podAffinityTerm": full}]


def test_spread_constraints() -> None:
    stored = created({"topologySpreadConstraints": [{**SPREAD, "matchLabelKeys": ["rev"]}]})
    (constraint,) = stored["topologySpreadConstraints"]
    rev = {"key": "rev", "operator": "In", "values": ["2"]}
    assert constraint["labelSelector"] == {**WEB, "matchExpressions": [rev]}
    assert constraint["matchLabelKeys"] == ["rev"]
    (constraint,) = created({"topologySpreadConstraints": [SPREAD]})["topologySpreadConstraints"]
    assert constraint["labelSelector"] == WEB
