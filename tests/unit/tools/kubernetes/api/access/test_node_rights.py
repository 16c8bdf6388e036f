"""Nodes: what they read for their pods, and what NodeRestriction lets them write."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.api.access.rights import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    Act,
    authorize,
)
from berth.tools.kubernetes.api.access.tokens import ISSUER
from berth.tools.kubernetes.api.access.users import Requester
from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.caller import Caller
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.kubernetes.api.writes.token_audiences import VERB
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

PODS, NODES = BY_KIND["v1", "Pod"], BY_KIND["v1", "Node"]
ACCOUNTS = BY_KIND["v1", "ServiceAccount"]
LEASES = BY_KIND["coordination.k8s.io/v1", "Lease"]
KUBELET = Requester("system:node:n", groups=("system:nodes", "system:authenticated"))
UNRELATED = "no relationship found between node 'n' and this object"


@pytest.fixture
def store() -> Store:
    store = fresh_store()
    store.secure = True
    store.plugins |= {"NodeRestriction"}
    api = Api(store)
    api.seed()
    for name in ("n", "m"):
        api.create(NODES, "", {"metadata": {"name": name}})
    environment = [{"name": "e", "valueFrom": {"secretKeyRef": {"name": "of-env", "key": "k"}}}]
    for node in ("n", "m"):
        spec = {
            "nodeName": node,
            "containers": [{"name": "c", "image": "i", "env": environment}],
            "imagePullSecrets": [{"name": f"pull-{node}"}],
            "volumes": [
                {"name": "a", "secret": {"secretName": f"secret-{node}"}},
                {"name": "b", "configMap": {"name": f"map-{node}"}},
                {"name": "c", "persistentVolumeClaim": {"claimName": f"claim-{node}"}},
            ],
        }
        api.create(PODS, "default", {"metadata": {"name": f"p-{node}"}, "spec": spec})
    return store


def act(verb: str, resource: str, name: str = "", subresource: str = "", group: str = "") -> Act:
    return Act(verb, group, resource, subresource, "default", name)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (act("get", "secrets", "secret-n"), ""),
        (act("watch", "secrets", "pull-n"), ""),
        (act("list", "secrets", "of-env"), ""),
        (act("get", "secrets", "secret-m"), UNRELATED),
        (act("get", "secrets", "none"), UNRELATED),
        (act("list", "secrets"), "No Object name found"),
        (act("delete", "secrets", "secret-n"), "can only read resources of this type"),
        (act("get", "configmaps", "map-n"), ""),
        (act("get", "configmaps", "kube-root-ca.crt"), ""),
        (act("get", "configmaps", "map-m"), UNRELATED),
        (act("get", "persistentvolumeclaims", "claim-n"), ""),
        (act("patch", "persistentvolumeclaims", "claim-n", "status"), ""),
        (act("get", "persistentvolumeclaims", "claim-m"), UNRELATED),
        (act("create", "serviceaccounts", "default", "token"), ""),
        (act("create", "serviceaccounts", "other", "token"), UNRELATED),
        (act("get", "pods", "p-n"), ""),
        (act("get", "pods", "p-m"), UNRELATED),
        (act("update", "pods", "p-n", "status"), ""),
        (Act("get", "", "nodes", name="n"), ""),
        (Act("get", "", "nodes", name="m"), "node 'n' cannot read 'm', only its own Node object"),
        (
            Act("update", "coordination.k8s.io", "leases", "", "default", "n"),
            'can only access leases in the "kube-node-lease" system namespace',
        ),
        (Act("update", "coordination.k8s.io", "leases", "", "kube-node-lease", "n"), ""),
        (
            Act("update", "coordination.k8s.io", "leases", "", "kube-node-lease", "m"),
            "can only access node lease with the same name as the requesting node",
        ),
        (Act("get", "storage.k8s.io", "csinodes", name="n"), ""),
    ],
)
def test_a_node_has_the_rights_that_its_pods_need(store: Store, asked: Act, reason: str) -> None:
    verdict = authorize(store, KUBELET, asked)
    assert (verdict.allowed, verdict.reason) == (not reason, reason)


def test_a_node_that_is_not_named_has_no_rights(store: Store) -> None:
    nobody = Requester("system:node:", groups=("system:nodes",))
    assert not authorize(store, nobody, act("get", "secrets", "secret-n")).allowed


def kubelet(store: Store) -> Api:
    return Api(store, caller=Caller(KUBELET, "update"))


def changed(store: Store, **spec: object) -> Document:
    node = store.get(NODES, "", "n")
    return {**node, "spec": {**(node.get("spec") or {}), **spec}}


def test_a_node_writes_its_own_objects_alone(store: Store) -> None:
    api = kubelet(store)
    api.create(LEASES, "kube-node-lease", {"metadata": {"name": "n"}, "spec": {}})
    api.update(NODES, "", "n", changed(store), "status")
    api.delete(PODS, "default", "p-n", DeleteOptions())
    with pytest.raises(RefusedError, match='node "n" is not allowed to modify node "o"'):
        api.create(NODES, "", {"metadata": {"name": "o"}})
    with pytest.raises(RefusedError, match='node "n" is not allowed to modify taints'):
        api.update(NODES, "", "n", changed(store, taints=[{"key": "a", "effect": "NoExecute"}]), "")
    with pytest.raises(RefusedError, match="with the same name as the requesting node"):
        api.create(LEASES, "kube-node-lease", {"metadata": {"name": "m"}, "spec": {}})
    with pytest.raises(RefusedError, match='node "n" can only delete pods with'):
        api.delete(PODS, "default", "p-m", DeleteOptions())
    status = store.get(PODS, "default", "p-m")
    with pytest.raises(RefusedError, match='node "n" can only update pod status for pods'):
        api.update(PODS, "default", "p-m", status, "status")


@pytest.mark.parametrize(
    ("label", "allowed"),
    [
        ("x", True),
        ("example.com/x", True),
        ("node.kubernetes.io/x", True),
        ("topology.kubernetes.io/zone", True),
        ("kubernetes.io/x", False),
        ("node-restriction.kubernetes.io/x", False),
    ],
)
def test_a_node_sets_labels_that_are_its_own(store: Store, label: str, allowed: bool) -> None:
    node = store.get(NODES, "", "n")
    labels = {**(node["metadata"].get("labels") or {}), label: "y"}
    after = {**node, "metadata": {**node["metadata"], "labels": labels}}
    if allowed:
        kubelet(store).update(NODES, "", "n", after, "")
    else:
        with pytest.raises(RefusedError, match=f"is not allowed to modify labels: {label}"):
            kubelet(store).update(NODES, "", "n", after, "")


def test_a_node_creates_mirror_pods_alone(store: Store) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
    pod: Document = {"metadata": {"name": "s-n"}, "spec": spec}
    store.plugins -= {"ServiceAccount"}
    with pytest.raises(RefusedError, match="can only create mirror pods"):
        kubelet(store).create(PODS, "default", pod)
    uid = store.get(NODES, "", "n")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid, "controller": True}
    mirror = {"kubernetes.io/config.mirror": "x"}
    metadata = {"name": "s-n", "annotations": mirror, "ownerReferences": [owner]}
    kubelet(store).create(PODS, "default", {**pod, "metadata": metadata})
    with pytest.raises(RefusedError, match="with an owner reference set to itself"):
        kubelet(store).create(
            PODS, "default", {**pod, "metadata": {**metadata, "ownerReferences": []}}
        )


def test_a_node_leaves_the_labels_of_its_pods(store: Store) -> None:
    pod = store.get(PODS, "default", "p-n")
    after = {**pod, "metadata": {**pod["metadata"], "labels": {"app": "db"}}}
    with pytest.raises(RefusedError, match='node "n" cannot update labels through pod status'):
        kubelet(store).update(PODS, "default", "p-n", after, "status")


def bound_to(store: Store, pod: str, **more: str) -> Document:
    uid = store.get(PODS, "default", pod)["metadata"]["uid"]
    return {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid, **more}


def test_a_node_gets_tokens_for_the_audiences_of_its_pods_alone(store: Store) -> None:
    token = {"projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "a"}}]}}
    driver: Document = {"metadata": {"name": "d"}, "spec": {"tokenRequests": [{"audience": "b"}]}}
    of_driver = {"persistentVolumeClaim": {"claimName": "claim"}}
    volumes = [{"name": "t", **token}, {"name": "c", **of_driver}]
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    api = Api(store)
    api.create(BY_KIND["storage.k8s.io/v1", "CSIDriver"], "", driver)
    bound: Document = {"metadata": {"name": "v"}, "spec": {"csi": {"driver": "d"}}}
    store.create(BY_KIND["v1", "PersistentVolume"], bound)
    claim: Document = {"metadata": {"name": "claim", "namespace": "default"}}
    claim["spec"] = {"volumeName": "v"}
    store.create(BY_KIND["v1", "PersistentVolumeClaim"], claim)
    api.create(PODS, "default", {"metadata": {"name": "p"}, "spec": spec})

    def ask(*audiences: str, uid: str = "") -> None:
        reference = {**bound_to(store, "p"), **({"uid": uid} if uid else {})}
        request = {"spec": {"boundObjectRef": reference, "audiences": [*audiences]}}
        kubelet(store).admit("CREATE", ACCOUNTS, "default", "default", request, None, "token")

    for audience in ("a", "b", ISSUER):
        ask(audience)
    with pytest.raises(RefusedError, match="may only request 0 or 1 audiences"):
        ask("a", "b")
    with pytest.raises(RefusedError, match="does not match the UID in record"):
        ask("a", uid="another")
    with pytest.raises(RefusedError, match='audience "c" not found in pod spec volume, system:nod'):
        ask("c")
    rule = {"apiGroups": [""], "resources": ["c"], "verbs": [VERB], "resourceNames": ["default"]}
    api.create(CLUSTER_ROLES, "", {"metadata": {"name": "of-c"}, "rules": [rule]})
    group = {"kind": "Group", "name": "system:nodes", "apiGroup": CLUSTER_ROLES.group}
    role = {"kind": "ClusterRole", "name": "of-c", "apiGroup": CLUSTER_ROLES.group}
    binding = {"metadata": {"name": "of-c"}, "subjects": [group], "roleRef": role}
    api.create(CLUSTER_ROLE_BINDINGS, "", binding)
    ask("c")


def test_a_node_gets_the_tokens_of_its_own_pods_alone(store: Store) -> None:
    def ask(reference: Document | None) -> None:
        request = {"spec": {"boundObjectRef": reference} if reference else {}}
        place = ACCOUNTS, "default", "default"
        kubelet(store).admit("CREATE", *place, request, None, "token")

    ask(bound_to(store, "p-n"))
    for reference in (None, {"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": "u"}):
        with pytest.raises(RefusedError, match="node requested token not bound to a pod"):
            ask(reference)
    with pytest.raises(RefusedError, match="with a pod binding without a uid"):
        ask(bound_to(store, "p-n", uid=""))
    with pytest.raises(RefusedError, match="bound to a pod scheduled on a different node"):
        ask(bound_to(store, "p-m"))
