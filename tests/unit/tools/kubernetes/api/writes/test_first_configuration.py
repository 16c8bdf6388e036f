"""What an API server writes about itself is valid, and written once."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.api.rules.validation import problems
from berth.tools.kubernetes.api.types.defaults import defaulted
from berth.tools.kubernetes.api.types.resources import BY_KIND, Kind
from berth.tools.kubernetes.api.writes.first_configuration import (
    ADDRESSES,
    API_SERVICES,
    FLOW_SCHEMAS,
    PRIORITY_LEVELS,
    SERVICE_RANGES,
    write_configuration,
)
from berth.tools.kubernetes.api.writes.registry import Api

SERVICES = BY_KIND["v1", "Service"]
WRITTEN = (FLOW_SCHEMAS, PRIORITY_LEVELS, API_SERVICES, SERVICE_RANGES, ADDRESSES)


def names(api: Api, kind: Kind) -> list[str]:
    return [stored.document["metadata"]["name"] for stored in api.store.list(kind)]


@pytest.mark.parametrize("kind", WRITTEN, ids=lambda kind: kind.kind)
def test_each_object_is_valid_and_has_its_defaults(api: Api, kind: Kind) -> None:
    write_configuration(api.store, kind)
    assert names(api, kind)
    for stored in api.store.list(kind):
        document = dict(stored.document)
        assert problems(kind.type_name, document) == []
        assert defaulted(kind, document) == document


def test_it_is_written_once_and_not_again(api: Api) -> None:
    write_configuration(api.store, FLOW_SCHEMAS)
    assert names(api, FLOW_SCHEMAS)[0] == "catch-all"
    assert "v1.apps" in names(api, API_SERVICES)
    api.store.delete(FLOW_SCHEMAS, "", "probes")
    revision = api.store.revision
    write_configuration(api.store, PRIORITY_LEVELS)
    assert api.store.revision == revision


def test_every_group_that_is_served_has_its_service(api: Api) -> None:
    write_configuration(api.store, API_SERVICES)
    served = {f"{kind.version}.{kind.group}" for kind in api.store.release.served}
    assert set(names(api, API_SERVICES)) == served - {"v1.apiregistration.k8s.io"}


def test_the_tracking_of_old_tokens_has_a_beginning(api: Api) -> None:
    name = "kube-apiserver-legacy-service-account-token-tracking"
    tracking = api.store.get(BY_KIND["v1", "ConfigMap"], "kube-system", name)
    assert tracking["data"]["since"] == api.store.outside.now()[:10]


def test_addresses_come_and_go_with_their_services(api: Api) -> None:
    spec = {"clusterIP": "10.96.7.7", "ports": [{"port": 1}]}
    api.create(SERVICES, "default", {"metadata": {"name": "s"}, "spec": spec})
    write_configuration(api.store, ADDRESSES)
    assert names(api, ADDRESSES) == ["10.96.0.1", "10.96.7.7"]
    assert api.store.get(ADDRESSES, "", "10.96.7.7")["spec"]["parentRef"]["name"] == "s"
    api.store.delete(SERVICES, "default", "s")
    write_configuration(api.store, ADDRESSES)
    assert names(api, ADDRESSES) == ["10.96.0.1"]
