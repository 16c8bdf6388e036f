"""ElasticQuotas: a guaranteed minimum, and a maximum by what others leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from berth.testing import Cluster, decide, nodes, pod, run_virtually
from berth.tools.docs.examples.elastic_quota import ElasticQuotas

Document = dict[str, Any]
DEFINITION = Path("tools/docs/examples/elastic-quotas.yaml").resolve()


def quota(namespace: str, least: int, most: int, **least_of: int) -> Document:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": namespace},
        "spec": {"min": {"cpu": least, **least_of}, "max": {"cpu": str(most)}},
    }


def of(namespace: str, name: str, cpu: int) -> Document:
    made = pod(name, cpu=cpu)
    made["metadata"]["namespace"] = namespace
    return made


def test_a_namespace_borrows_what_another_leaves_and_no_more_than_its_maximum() -> None:
    async def story() -> None:
        async with Cluster(DEFINITION, nodes=4, plugins=[ElasticQuotas]) as cluster:
            await cluster.add(of("a", "first", 2), of("b", "own", 1), of("free", "any", 9 - 2))
            await cluster.settled()
            await cluster.add(quota("a", 2, 4), quota("b", 3, 8))
            await cluster.run_for(1)
            await cluster.add(of("a", "borrowed", 2), of("a", "over", 1))
            await cluster.settled()
            assert cluster.pod("borrowed", "a").placed_on()
            assert cluster.pod("over", "a").pending_because("quota of namespace a exceeded: cpu")
            # All that is guaranteed is used: 4 of a, and 1 of b.
            await cluster.add(of("b", "lent", 1))
            await cluster.run_for(1)
            assert not cluster.pod("lent", "b").pending()  # It is guaranteed, whoever borrowed.
            await cluster.add(of("b", "more", 3))
            await cluster.run_for(1)
            assert cluster.pod("more", "b").pending_because("no namespace has quota to lend: cpu")
            await cluster.delete("Pod", "borrowed", "a")
            await cluster.delete("Pod", "first", "a")
            await cluster.until(cluster.pod("over", "a").placed_on, limit="2m")

    run_virtually(story)


def test_a_pod_that_is_resized_leaves_room() -> None:
    async def story() -> None:
        async with Cluster(DEFINITION, nodes=1, plugins=[ElasticQuotas]) as cluster:
            await cluster.add(of("a", "first", 3), quota("a", 3, 3))
            await cluster.settled()
            await cluster.add(of("a", "second", 2))
            await cluster.settled()
            assert cluster.pod("second", "a").pending_because("exceeded: cpu")
            smaller = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
            body = {"spec": {"containers": [smaller]}}
            await cluster.patch("Pod", "first", body, "a", subresource="resize")
            await cluster.run_for(10)
            assert cluster.pod("second", "a").placed_on()

    run_virtually(story)


def test_an_amount_that_is_none_harms_no_other_namespace() -> None:
    wrong = quota("a", 1, 1)
    wrong["spec"] = {"min": {"cpu": "much"}, "max": {"cpu": "more"}}
    for namespace, because in (("b", ""), ("a", "quota of namespace a exceeded: cpu")):
        wants = of(namespace, "any", 1)
        decision = decide(wants, nodes(1), wrong, quota("b", 2, 2), plugins=[ElasticQuotas])
        assert because in decision.message
        assert bool(decision.node) is not bool(because)


def test_what_only_others_are_guaranteed_is_borrowed() -> None:
    own = quota("a", 8, 8), quota("b", 0, 8, memory=2 << 30)
    for size, because in ((2, ""), (3, "no namespace has quota to lend: memory")):
        wants = of("a", "borrowed", 1)
        wants["spec"]["containers"][0]["resources"]["requests"]["memory"] = f"{size}Gi"
        decision = decide(wants, nodes(1, cpu=8), *own, plugins=[ElasticQuotas])
        assert because in decision.message
        assert bool(decision.node) is not bool(because)
