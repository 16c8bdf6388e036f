"""The revisions of ReplicaSets, and the annotations that they get from their deployment."""

from __future__ import annotations

from .deployments import created, decided, deployment_of, noted, replica_set, template_of

REVISION = "deployment.kubernetes.io/revision"
EARLIER = "deployment.kubernetes.io/revision-history"


def test_a_roll_back_makes_an_old_replica_set_the_latest_revision() -> None:
    old = replica_set("old", 0, annotations={REVISION: "4"})
    new = replica_set("new", 1, annotations={REVISION: "2", EARLIER: "1"})
    writes = decided(deployment_of(1, annotations={"a": "b", REVISION: "4"}), old, new)
    assert noted(writes, "new") == {"a": "b", REVISION: "5", EARLIER: "1,2"}
    assert noted(writes, "w") == {REVISION: "5"}
    long = ",".join(["1000"] * 400)
    new = replica_set("new", 1, annotations={REVISION: "2", EARLIER: long})
    assert noted(decided(deployment_of(1), old, new), "new")[EARLIER] == long[5:] + ",2"


def test_a_revision_that_is_no_number_is_skipped() -> None:
    odd = [replica_set(text, 0, annotations={REVISION: text}) for text in ("x", "-7", "1_0", "")]
    third = replica_set("third", 0, annotations={REVISION: "3"})
    (document,) = created(decided(deployment_of(1), *odd, third))
    assert document["metadata"]["annotations"][REVISION] == "4"
    (document,) = created(decided(deployment_of(1), *odd))
    assert document["metadata"]["annotations"][REVISION] == "1"
    new = replica_set("new", 1, annotations={REVISION: "x"})
    writes = decided(deployment_of(1, annotations={"a": "b"}), third, new)
    assert noted(writes, "new") == {}, "nothing is known to be newer"
    assert noted(writes, "w") == {REVISION: "x"}


def test_a_template_that_says_the_same_in_other_words_has_its_replica_set() -> None:
    template = template_of("new")
    template["metadata"] = {**template["metadata"], "annotations": {}}
    template["spec"] = {**template["spec"], "nodeSelector": {}, "hostNetwork": False}
    new = replica_set("new", 1)
    assert created(decided(deployment_of(1, template=template), new)) == []
    template["spec"]["automountServiceAccountToken"] = False
    assert len(created(decided(deployment_of(1, template=template), new))) == 1
