"""A pod that names its node, with a claim that waits until a scheduler chooses one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from berth.tools.views.commands.explain import explain
from berth.tools.views.commands.whatif import whatif

NODES = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late}
provisioner: example.com
volumeBindingMode: WaitForFirstConsumer
"""
CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], storageClassName: late, resources: {requests: {storage: 1Gi}}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  nodeName: NODE
  containers: [{name: c, image: i}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]
"""
WAITS = (
    "default/web waits for its claim data, which waits until a scheduler chooses the node of the "
    "first consumer: as spec.nodeName is set, none will."
)


def explained(*texts: str, pod: str = "web") -> str:
    runner = CliRunner(env={"COLUMNS": "300"})
    result = runner.invoke(explain, ["-f", "-", *[pod] * bool(pod)], input="---".join(texts))
    assert result.exit_code == 0, result.output
    return result.output


def named(name: str, node: str) -> str:
    return POD.replace("NAME", name).replace("NODE", node)


@pytest.mark.parametrize(
    ("node", "change"),
    [
        (
            "n1",
            "- Use a nodeSelector kubernetes.io/hostname: n1 instead of nodeName: it fits on n1.",
        ),
        ("n2", "- Use a node affinity to n2 instead of nodeName: it fits on n2."),
    ],
)
def test_the_claim_that_waits_is_named_and_the_selector_advised(node: str, change: str) -> None:
    told = explained(NODES, CLAIM, named("web", node))
    assert WAITS in told
    assert told.split("what would change it\n")[1].splitlines() == [change]


def test_it_is_among_the_pending_pods() -> None:
    told = explained(NODES, CLAIM, named("web", "n1"), pod="")
    assert "default/web │ is already bound to n1; waits for its claim data" in told
    assert "it would go to n1, n2" in told


@pytest.mark.parametrize(
    "others",
    [
        (CLAIM.replace("{name: data}", "{name: data, annotations: {SELECTED: n1}}"),),
        (CLAIM.replace("spec: {", "spec: {volumeName: v, "),),
        (CLAIM, named("other", '""')),  # whose node a scheduler chooses
    ],
)
def test_a_claim_whose_node_is_chosen_does_not_wait(others: tuple[str, ...]) -> None:
    annotation = "volume.kubernetes.io/selected-node"
    texts = [text.replace("SELECTED", annotation) for text in others]
    assert "waits for its claim" not in explained(NODES, *texts, named("web", "n1"))


@pytest.mark.parametrize("selector", ["", ", selector: {matchLabels: {disk: mine}}"])
def test_a_pod_that_is_being_bound_does_not_wait_for_room_but_for_a_volume(selector: str) -> None:
    chosen = "{name: data, annotations: {volume.kubernetes.io/selected-node: n1}}"
    claim = CLAIM.replace("{name: data}", chosen).replace(
        "storage: 1Gi}}", f"storage: 1Gi}}}}{selector}"
    )
    pod = POD.replace("NAME", "web").replace("  nodeName: NODE\n", "")
    told = explained(NODES, claim, f"{pod}status: {{nominatedNodeName: n1}}\n")
    volume = "waits for a volume of its claim data: nothing makes one for a claim with a selector"
    assert (volume in told, "where it waits for room" in told) == (bool(selector), not selector)
    again = "would stay pending: n1 would be chosen, and the binding fail"
    assert (again in told, "would go to n1" in told) == (bool(selector), not selector)


VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: v, labels: {disk: mine}}
spec: {storageClassName: late, capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], CLAIM}
"""


@pytest.mark.parametrize(
    ("volume", "made"),
    [
        ("", False),
        (VOLUME.replace("CLAIM", "hostPath: {path: /v}"), True),
        (VOLUME.replace("CLAIM", "claimRef: {namespace: a, name: b}, hostPath: {path: /v}"), False),
    ],
)
def test_a_claim_with_a_selector_gets_a_volume_that_exists_or_none(
    volume: str, made: bool, tmp_path: Path
) -> None:
    claim = CLAIM.replace("storage: 1Gi}}", "storage: 1Gi}}, selector: {matchLabels: {disk: mine}}")
    pod = POD.replace("NAME", "web").replace("  nodeName: NODE\n", "")
    texts = (NODES, claim, pod, volume)
    told = explained(*texts)
    assert ("default/web goes to" in told, "waits for a volume of its claim data" in told) == (
        made,
        not made,
    )
    assert ("would be chosen, and the binding fail" in explained(*texts, pod="")) == (not made)
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("---".join(texts))
    tried = CliRunner().invoke(whatif, ["-f", str(cluster), "-o", "json"])
    assert tried.exit_code == (not made), tried.output
    answer = json.loads(tried.stdout)
    reasons = [of["reason"] for of in answer["pending"]]
    assert [reason.startswith("waits for a volume of its claim data") for reason in reasons] == [
        True
    ] * (not made)
