"""Why pods are pending at the end of a demo, in the words of `berth explain`."""

from __future__ import annotations

from berth.config.feature_gates import DEFAULTS
from berth.config.load import from_mapping
from berth.tools.cluster.controllers.embedded_access import EmbeddedAccess
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.demo.placements import Row, Summary
from berth.tools.testing.demo.reasons import MOST_PODS, with_reasons
from tests.kit.stores import fresh_store

MESSAGE = "0/1 nodes are available: 1 Insufficient cpu."


async def reasons(pending: int, *rows: Row) -> list[str]:
    access = EmbeddedAccess(fresh_store())
    await access.call("POST", "/api/v1/namespaces", dict, {"metadata": {"name": "default"}})
    await access.call("POST", "/api/v1/nodes", dict, hollow_node(1))
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "99"}}}
    pod = {"metadata": {"name": "big"}, "spec": {"containers": [container]}}
    await access.call("POST", "/api/v1/namespaces/default/pods", dict, pod)
    summary = Summary(list(rows), 0, pending, 0.0, {}, [], {})
    told = await with_reasons(summary, access, from_mapping(None), DEFAULTS)
    return [row.why for row in told.pods]


async def test_a_pod_that_fits_nowhere_has_the_sentence() -> None:
    big = Row("default", "big", "", "Pending", MESSAGE)
    other = Row("default", "other", "", "Pending", "left alone: it is for the scheduler nobody")
    assert await reasons(2, big, other) == [
        "stays pending: of 1 node, 1 lacks cpu (99 requested, the largest node has 8)",
        other.message,
    ]


async def test_of_too_many_pods_each_has_kubernetes_message() -> None:
    big = Row("default", "big", "", "Pending", MESSAGE)
    assert await reasons(MOST_PODS + 1, big) == [MESSAGE]
