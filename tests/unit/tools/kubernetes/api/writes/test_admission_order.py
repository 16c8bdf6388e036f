"""The admission plugins: their order, and which of them run."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.api.types.admission_plugins import (
    DEFAULT_PLUGINS,
    IN_ORDER,
    enabled_plugins,
)
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.admission_order import ORDER, VALIDATION
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document, pod
from tests.kit.stores import fresh_store

PODS = BY_KIND["v1", "Pod"]


def test_plugins_stand_in_the_order_of_kubernetes_before_and_after_the_validation() -> None:
    names = [row[0] for row in ORDER]
    first, last = names.index(VALIDATION), len(names) - names[::-1].index(VALIDATION)
    for part in (names[:first], names[last:]):
        places = [IN_ORDER.index(name) for name in part if name]
        assert places == sorted(places)


def test_plugins_are_enabled_and_disabled_by_name() -> None:
    assert enabled_plugins((), ()) == DEFAULT_PLUGINS
    chosen = enabled_plugins(["AlwaysPullImages"], ["Priority"])
    assert chosen == DEFAULT_PLUGINS - {"Priority"} | {"AlwaysPullImages"}
    assert enabled_plugins(["Priority"], [], frozenset()) == {"Priority"}


@pytest.mark.parametrize(
    ("enable", "disable", "problem"),
    [
        (["Prio"], [], 'admission plugin "Prio" is unknown'),
        ([], ["Prio"], 'admission plugin "Prio" is unknown'),
        (["Priority"], ["Priority"], 'admission plugin "Priority" is both enabled and disabled'),
        (["EventRateLimit"], [], 'admission plugin "EventRateLimit" is not offered by berth'),
    ],
)
def test_what_cannot_be_enabled_is_named(
    enable: list[str], disable: list[str], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        enabled_plugins(enable, disable)


def test_a_disabled_plugin_does_nothing() -> None:
    def spec(*without: str) -> Document:
        api = Api(fresh_store())
        api.seed()
        api.store.plugins -= {*without}
        created: Document = api.create(PODS, "default", pod("p")).document["spec"]
        return created

    assert spec()["priority"] == 0
    assert len(spec()["tolerations"]) == 2
    bare = spec("Priority", "DefaultTolerationSeconds")
    assert "priority" not in bare
    assert "tolerations" not in bare


def test_without_namespace_lifecycle_no_namespace_is_asked_for() -> None:
    api = Api(fresh_store())
    api.seed()
    api.store.plugins -= {"NamespaceLifecycle", "ServiceAccount"}
    created = api.create(PODS, "nowhere", {**pod("p"), "metadata": {"name": "p"}}).document
    assert created["metadata"]["namespace"] == "nowhere"
