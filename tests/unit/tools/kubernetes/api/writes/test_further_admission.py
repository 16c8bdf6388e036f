"""Smaller admission plugins, each enabled by its name."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.access.rights import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from berth.tools.kubernetes.api.access.users import Requester
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND, Kind
from berth.tools.kubernetes.api.writes.caller import Caller
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

PODS, NODES, SERVICES = BY_KIND["v1", "Pod"], BY_KIND["v1", "Node"], BY_KIND["v1", "Service"]
CLAIMS, NAMESPACES = BY_KIND["v1", "PersistentVolumeClaim"], BY_KIND["v1", "Namespace"]
MAPS, CLASSES = BY_KIND["v1", "ConfigMap"], BY_KIND["storage.k8s.io/v1", "StorageClass"]
INGRESSES = BY_KIND["networking.k8s.io/v1", "Ingress"]
INGRESS_CLASSES = BY_KIND["networking.k8s.io/v1", "IngressClass"]
RBAC = "rbac.authorization.k8s.io"
ANN = Requester("ann", groups=("system:authenticated",))


def served(*plugins: str, user: Requester | None = None) -> Api:
    store = fresh_store()
    Api(store).seed()
    store.plugins |= {*plugins}
    return Api(store, caller=None if user is None else Caller(user, "update"))


def create(api: Api, kind: Kind, name: str, spec: Document, **metadata: Any) -> Document:
    namespace = "default" if kind.namespaced else ""
    document = {"metadata": {"name": name, **metadata}, "spec": spec}
    return api.create(kind, namespace, document).document


def pod(api: Api, **fields: Any) -> Document:
    container = {"name": "c", "image": "i:1", **fields.pop("container", {})}
    created: Document = create(api, PODS, "p", {"containers": [container], **fields})["spec"]
    return created


def refusal(api: Api, kind: Kind, spec: Document, **metadata: Any) -> str:
    with pytest.raises(RefusedError) as caught:
        create(api, kind, "p", spec, **metadata)
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    return str(caught.value)


def test_an_ingress_gets_the_newest_default_class() -> None:
    api = served()
    backend = {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
    assert "ingressClassName" not in create(api, INGRESSES, "a", backend)["spec"]
    default = {"ingressclass.kubernetes.io/is-default-class": "true"}
    for name in ("z", "y"):
        create(api, INGRESS_CLASSES, name, {"controller": "x/y"}, annotations=default)
    create(api, INGRESS_CLASSES, "a", {"controller": "x/y"})
    assert create(api, INGRESSES, "b", backend)["spec"]["ingressClassName"] == "y"
    own = {**backend, "ingressClassName": "a"}
    assert create(api, INGRESSES, "c", own)["spec"]["ingressClassName"] == "a"
    old = {"kubernetes.io/ingress.class": "w"}
    assert "ingressClassName" not in create(api, INGRESSES, "d", backend, annotations=old)["spec"]


def test_a_new_node_is_tainted_until_it_is_ready() -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert "taints" not in create(served(), NODES, "n", {})["spec"]
    api = served("TaintNodesByCondition")
    assert create(api, NODES, "n", {})["spec"]["taints"] == [taint]
    assert create(api, NODES, "m", {"taints": [taint]})["spec"]["taints"] == [taint]


def test_images_are_pulled_each_time() -> None:
    container = {"imagePullPolicy": "Never"}
    volume = {"name": "v", "image": {"reference": "r"}}
    spec = pod(served("AlwaysPullImages"), container=container, volumes=[volume])
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    assert spec["volumes"][0]["image"]["pullPolicy"] == "Always"


def test_a_namespace_selects_nodes() -> None:
    api = served("PodNodeSelector")
    namespace = api.store.get(NAMESPACES, "", "default")
    annotations = {"scheduler.alpha.kubernetes.io/node-selector": "zone=a, disk = ssd"}
    metadata = {**namespace["metadata"], "annotations": annotations}
    api.update(NAMESPACES, "", "default", {**namespace, "metadata": metadata}, "")
    assert pod(api, nodeSelector={"x": "y"})["nodeSelector"] == {
        "zone": "a",
        "disk": "ssd",
        "x": "y",
    }
    other = {"containers": [{"name": "c"}], "nodeSelector": {"zone": "b"}}
    assert refusal(api, PODS, other) == (
        'pods "p" is forbidden: pod node label selector conflicts with its namespace node label '
        "selector"
    )


def test_a_pod_tolerates_the_taints_of_what_it_asks_for() -> None:
    amounts = {"example.com/gpu": "1", "cpu": "1"}
    resources = {"resources": {"requests": amounts, "limits": amounts}}
    tolerations = pod(served("ExtendedResourceToleration"), container=resources)["tolerations"]
    assert {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in tolerations
    assert len(tolerations) == 3


def test_only_nodes_may_be_kept_from_other_pods() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "affinity": {"podAntiAffinity": required},
    }
    assert refusal(served("LimitPodHardAntiAffinityTopology"), PODS, spec) == (
        'pods "p" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey '
        "zone but only key kubernetes.io/hostname is allowed"
    )


def test_a_service_gets_no_external_addresses() -> None:
    spec = {"ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]}
    assert refusal(served("DenyServiceExternalIPs"), SERVICES, spec) == (
        'services "p" is forbidden: Use of external IPs is denied by admission control'
    )


def test_everything_is_denied() -> None:
    with pytest.raises(RefusedError, match="admission control is denying all modifications"):
        create(served("AlwaysDeny"), MAPS, "m", {})


@pytest.mark.parametrize(
    ("phase", "expands", "why"),
    [
        ("Bound", True, ""),
        ("Bound", False, "only dynamically provisioned pvc can be resized and the storageclass"),
        ("Pending", True, "spec is immutable after creation except resources.requests"),
    ],
)
def test_a_claim_grows_if_its_class_lets_it(phase: str, expands: bool, why: str) -> None:
    api = served()
    expandable = {"provisioner": "x", "allowVolumeExpansion": expands}
    api.create(CLASSES, "", {"metadata": {"name": "sc"}, **expandable})

    def spec(size: str) -> Document:
        resources = {"requests": {"storage": size}}
        modes = ["ReadWriteOnce"]
        volume = {"volumeName": "v"} if phase == "Bound" else {}
        return {
            "accessModes": modes,
            "resources": resources,
            "storageClassName": "sc",
            **volume,
        }

    claim = create(api, CLAIMS, "c", spec("1Gi"))
    claim = api.update(
        CLAIMS,
        "default",
        "c",
        {**claim, "status": {"phase": phase, "capacity": {"storage": "1Gi"}}},
        "status",
    ).document
    grown = {**claim, "spec": {**claim["spec"], **spec("2Gi")}}
    if why:
        with pytest.raises(RefusedError, match=why):
            api.update(CLAIMS, "default", "c", grown, "")
    else:
        api.update(CLAIMS, "default", "c", grown, "")


def test_owners_are_set_by_those_who_may() -> None:
    api = served("OwnerReferencesPermissionEnforcement", user=ANN)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}
    create(api, MAPS, "a", {}, ownerReferences=[owner])
    blocking = [{**owner, "blockOwnerDeletion": True}]
    assert refusal(api, MAPS, {}, ownerReferences=blocking) == (
        'configmaps "p" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to '
        "a resource you can't set finalizers on: , <nil>"
    )
    stored = api.store.get(MAPS, "default", "a")
    changed = {**stored, "metadata": {**stored["metadata"], "ownerReferences": []}}
    with pytest.raises(RefusedError, match="on a resource you can't delete"):
        api.update(MAPS, "default", "a", changed, "")
    rules = [
        {"apiGroups": [""], "resources": ["pods/finalizers"], "verbs": ["update"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["delete"]},
    ]
    other = Api(api.store)
    other.create(CLUSTER_ROLES, "", {"metadata": {"name": "r"}, "rules": rules})
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "r"}
    subject = {"apiGroup": RBAC, "kind": "User", "name": "ann"}
    other.create(
        CLUSTER_ROLE_BINDINGS,
        "",
        {"metadata": {"name": "b"}, "roleRef": reference, "subjects": [subject]},
    )
    create(api, MAPS, "b", {}, ownerReferences=blocking)
    api.update(MAPS, "default", "a", changed, "")
