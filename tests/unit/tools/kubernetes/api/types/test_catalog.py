"""Kinds that a store serves beside those of its release."""

from __future__ import annotations

import pytest

from berth.config.versions import VERSIONS
from berth.tools.kubernetes.api.requests.request_targets import target_of
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.catalog import CURRENT_CATALOG, Catalog
from berth.tools.kubernetes.api.types.discovery import discovery
from berth.tools.kubernetes.api.types.releases import release_of
from berth.tools.kubernetes.api.types.resources import BY_KIND, Kind
from tests.kit.stores import fresh_store

SHIRTS = Kind("shop.example.com", "v1", "shirts", "Shirt", namespaced=True)
PATH = "/apis/shop.example.com/v1/namespaces/lab/shirts/blue"


def test_a_kind_is_served_from_when_it_is_added_until_it_is_removed() -> None:
    with_shirts = CURRENT_CATALOG.replacing((), [SHIRTS])
    without = with_shirts.replacing([SHIRTS], ())
    target = target_of(PATH, with_shirts)
    assert (target.kind, target.namespace, target.name) == (SHIRTS, "lab", "blue")
    assert with_shirts.named("shop.example.com/v1", "Shirt") is SHIRTS
    assert SHIRTS in with_shirts.kinds
    assert "shirts" in str(discovery("/apis/shop.example.com/v1", with_shirts))
    for catalog in (CURRENT_CATALOG, without):
        with pytest.raises(RefusedError):
            target_of(PATH, catalog)
        assert catalog.named("shop.example.com/v1", "Shirt") is None
        assert SHIRTS not in catalog.served


def test_a_catalog_has_the_kinds_of_its_release() -> None:
    name = "resource.k8s.io/v1", "DeviceTaintRule"
    assert Catalog(release_of(VERSIONS[36])).named(*name) is None
    assert Catalog(release_of(VERSIONS[37])).named(*name) is BY_KIND[name]


def test_a_fork_and_another_release_keep_the_added_kinds() -> None:
    store = fresh_store()
    store.catalog = store.catalog.replacing((), [SHIRTS])
    fork = store.fork()
    store.release = release_of(VERSIONS[37])
    assert fork.catalog.added == store.catalog.added == (SHIRTS,)
    fork.catalog = fork.catalog.replacing([SHIRTS], ())
    assert store.catalog.added == (SHIRTS,)
