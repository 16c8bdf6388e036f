"""The fields that the API server fills in, and the form in which it stores the others."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions
from berth.tools.kubernetes.api.types.api_documents import Document, RefusedError
from berth.tools.kubernetes.api.types.defaults import defaulted
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api

PODS, SERVICES = BY_KIND["v1", "Pod"], BY_KIND["v1", "Service"]
CONTAINER = {
    "name": "c",
    "image": "a:1",
    "imagePullPolicy": "IfNotPresent",
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}


def spec_of(**fields: Any) -> Document:
    spec: Document = defaulted(PODS, {"metadata": {"name": "p"}, "spec": fields})["spec"]
    return spec


def container_of(**fields: Any) -> Document:
    container: Document = spec_of(containers=[{"name": "c", "image": "a:1", **fields}])[
        "containers"
    ][0]
    return container


def template_of(api_version: str, kind: str, **fields: Any) -> Document:
    """Returns the spec of the pods of a workload."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": fields}
    workload = {"metadata": {"name": "w"}, "spec": {"template": template}}
    spec: Document = defaulted(BY_KIND[api_version, kind], workload)["spec"]["template"]["spec"]
    return spec


def test_a_pod() -> None:
    assert spec_of(containers=[{"name": "c", "image": "a:1"}]) == {
        "containers": [CONTAINER],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }


def test_the_pull_policy_follows_from_the_tag() -> None:
    for image, policy in (
        ("a", "Always"),
        ("host:5000/a", "Always"),
        ("a:latest", "Always"),
        ("a:1", "IfNotPresent"),
        ("a@sha256:" + "0" * 64, "IfNotPresent"),
        ("Registry/a/b_c", "Always"),
        ("my.registry:5000/a/b", "Always"),
        ("<image>", "IfNotPresent"),
        ("$(IMAGE)", "IfNotPresent"),
        ("a b", "IfNotPresent"),
    ):
        assert container_of(image=image)["imagePullPolicy"] == policy


def test_probes() -> None:
    probe = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    action = {"httpGet": {"port": 80}}
    web = container_of(livenessProbe={**action, "timeoutSeconds": 0, "periodSeconds": 4})
    assert web["livenessProbe"] == {
        **probe,
        "periodSeconds": 4,
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
    }
    assert container_of(startupProbe={"grpc": {"port": 1}})["startupProbe"]["grpc"] == {
        "port": 1,
        "service": "",
    }
    assert container_of(lifecycle={"preStop": action})["lifecycle"]["preStop"]["httpGet"]["path"]


def test_what_says_nothing_is_not_stored() -> None:
    mount = {"name": "v", "mountPath": "/v", "readOnly": False, "subPath": ""}
    filled = container_of(
        volumeMounts=[mount],
        env=[{"name": "A", "value": ""}],
        stdin=False,
        args=[],
        securityContext={"privileged": False, "capabilities": {"add": []}},
    )
    assert filled == {
        **CONTAINER,
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "env": [{"name": "A"}],
        "securityContext": {"privileged": False, "capabilities": {}},
    }
    pod = {"metadata": {"name": "p", "labels": {}, "annotations": {"a": ""}}, "spec": {}}
    assert defaulted(PODS, pod)["metadata"] == {"name": "p", "annotations": {"a": ""}}


def test_what_go_writes_although_it_says_nothing() -> None:
    limits = defaulted(BY_KIND["v1", "LimitRange"], {"metadata": {"name": "l"}})
    assert limits["spec"] == {"limits": None}
    hook = container_of(lifecycle={"preStop": {"sleep": {}}})["lifecycle"]
    assert hook == {"preStop": {"sleep": {"seconds": 0}}}
    stateful = {"metadata": {"name": "s"}, "spec": {"ordinals": {}}}
    assert defaulted(BY_KIND["apps/v1", "StatefulSet"], stateful)["spec"]["ordinals"] == {
        "start": 0
    }
    policy = {"metadata": {"name": "j"}, "spec": {"podFailurePolicy": {"rules": []}}}
    job = defaulted(BY_KIND["batch/v1", "Job"], policy)
    assert job["spec"]["podFailurePolicy"] == {"rules": None}


def test_volumes() -> None:
    volumes: list[Document] = [
        {"name": "nothing"},
        {"name": "c", "configMap": {"name": "x"}},
        {"name": "s", "secret": {"secretName": "x", "defaultMode": 256}},
        {"name": "h", "hostPath": {"path": "/x"}},
        {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
    ]
    token = {"path": "t", "expirationSeconds": 3600}
    assert spec_of(volumes=volumes)["volumes"] == [
        {"name": "nothing", "emptyDir": {}},
        {"name": "c", "configMap": {"name": "x", "defaultMode": 420}},
        {"name": "s", "secret": {"secretName": "x", "defaultMode": 256}},
        {"name": "h", "hostPath": {"path": "/x", "type": ""}},
        {
            "name": "p",
            "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": token}]},
        },
    ]


def test_amounts_are_written_in_one_way() -> None:
    amounts = {
        0.5: "500m",
        "1000m": "1",
        "1024Mi": "1Gi",
        "1.5Gi": "1536Mi",
        "0.5Ki": "512",
        "3000": "3k",
        "1e3": "1e3",
        "1500e0": "1500",
        "100e1": "1e3",
        "0": "0",
    }
    for sent, stored in amounts.items():
        resources = {"requests": {"cpu": sent}}
        assert container_of(resources=resources)["resources"]["requests"] == {"cpu": stored}


def test_only_pods_get_requests_links_and_the_hosts_ports() -> None:
    container = {
        **CONTAINER,
        "resources": {"limits": {"cpu": "1"}},
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
    }
    template = template_of("apps/v1", "Deployment", containers=[container], hostNetwork=True)
    assert template["containers"] == [container]
    assert "enableServiceLinks" not in template
    filled = spec_of(containers=[container], hostNetwork=True)["containers"][0]
    assert filled["resources"]["requests"] == {"cpu": "1"}
    assert filled["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]


def test_a_pods_own_requests_are_those_of_its_containers_or_its_limits() -> None:
    container = {**CONTAINER, "resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}}}
    spec = spec_of(
        containers=[container, {**container, "name": "d"}],
        resources={"limits": {"cpu": "4", "memory": "1Gi"}},
    )
    assert spec["resources"]["requests"] == {"cpu": "2", "memory": "1Gi"}


def test_a_negative_grace_period_is_a_second_in_pods_alone() -> None:
    sent = {"terminationGracePeriodSeconds": -1}
    assert spec_of(**sent)["terminationGracePeriodSeconds"] == 1
    template = template_of("apps/v1", "ReplicaSet", **sent)
    assert template["terminationGracePeriodSeconds"] == -1
    assert spec_of(terminationGracePeriodSeconds=0)["terminationGracePeriodSeconds"] == 0


def test_a_service_account_has_both_its_names() -> None:
    for sent in ({"serviceAccount": "a"}, {"serviceAccountName": "a", "serviceAccount": "old"}):
        template = template_of("apps/v1", "StatefulSet", **sent)
        assert (template["serviceAccount"], template["serviceAccountName"]) == ("a", "a")


@pytest.mark.parametrize(
    ("kind", "field", "sent", "stored"),
    [
        (
            "Deployment",
            "strategy",
            {"rollingUpdate": {"maxUnavailable": 1}},
            {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": "25%"}},
        ),
        ("Deployment", "strategy", {"type": "Recreate"}, {"type": "Recreate"}),
        (
            "DaemonSet",
            "updateStrategy",
            {"type": "RollingUpdate"},
            {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        ),
        (
            "DaemonSet",
            "updateStrategy",
            {"rollingUpdate": {"maxUnavailable": "10%"}},
            {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%", "maxSurge": 0}},
        ),
        (
            "StatefulSet",
            "updateStrategy",
            {"rollingUpdate": {"partition": 3}},
            {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}},
        ),
        ("StatefulSet", "updateStrategy", {"type": "OnDelete"}, {"type": "OnDelete"}),
        ("StatefulSet", "updateStrategy", {"type": "RollingUpdate"}, {"type": "RollingUpdate"}),
    ],
)
def test_a_strategy_of_updates(kind: str, field: str, sent: Document, stored: Document) -> None:
    workload = {"metadata": {"name": "w"}, "spec": {field: sent}}
    assert defaulted(BY_KIND["apps/v1", kind], workload)["spec"][field] == stored


def test_workloads_without_labels_get_those_of_their_template() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {}}
    for kind in (BY_KIND["v1", "ReplicationController"], BY_KIND["batch/v1", "Job"]):
        spec = {"template": template}
        plain = defaulted(kind, {"metadata": {"name": "w"}, "spec": spec})
        assert plain["metadata"]["labels"] == {"a": "b"}
        own = defaulted(kind, {"metadata": {"name": "w", "labels": {"c": "d"}}, "spec": spec})
        assert own["metadata"]["labels"] == {"c": "d"}


def test_the_claims_of_a_stateful_set_say_what_they_are() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    spec = {"volumeClaimTemplates": [claim]}
    stored = defaulted(BY_KIND["apps/v1", "StatefulSet"], {"metadata": {}, "spec": spec})
    assert stored["spec"]["volumeClaimTemplates"] == [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {}, "volumeMode": "Filesystem"},
            "status": {"phase": "Pending"},
        }
    ]


def test_secrets_have_data_alone_in_base64_of_one_line(api: Api) -> None:
    secrets = BY_KIND["v1", "Secret"]
    sent = {"data": {"a": "aGVs\nbG8=\r\n", "b": "aGk="}, "stringData": {"b": "plum", "c": ""}}
    stored = api.create(secrets, "default", {"metadata": {"name": "s"}, **sent}).document
    assert stored["data"] == {"a": "aGVsbG8=", "b": "cGx1bQ==", "c": ""}
    assert stored["type"] == "Opaque"
    assert "stringData" not in stored


def test_a_role_without_rules_says_so() -> None:
    roles = BY_KIND["rbac.authorization.k8s.io/v1", "ClusterRole"]
    documents: list[Document] = [{}, {"rules": []}]
    for sent in documents:
        assert defaulted(roles, {"metadata": {"name": "r"}, **sent})["rules"] is None


def test_the_template_of_a_cron_job_gets_no_defaults_of_jobs() -> None:
    spec = {"schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": {}}}}}
    stored = defaulted(BY_KIND["batch/v1", "CronJob"], {"metadata": {}, "spec": spec})["spec"]
    assert stored["jobTemplate"]["metadata"] == {}
    assert stored["jobTemplate"]["spec"].keys() == {"template"}
    assert stored["concurrencyPolicy"] == "Allow"


def test_generations_are_counted_where_kubernetes_counts_them(api: Api) -> None:
    counted = api.create(
        PODS, "default", {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER]}}
    )
    assert counted.document["metadata"]["generation"] == 1
    ports = {"spec": {"ports": [{"port": 80}]}}
    service = api.create(SERVICES, "default", {"metadata": {"name": "s", "generation": 3}, **ports})
    assert service.document["metadata"]["generation"] == 3  # as it was sent, and it stays so


def test_objects_of_storage_are_protected_from_their_creation_on(api: Api) -> None:
    claims = BY_KIND["v1", "PersistentVolumeClaim"]
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = api.create(claims, "default", {"metadata": {"name": "c"}, "spec": spec}).document
    assert claim["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    api.store.plugins -= {"StorageObjectInUseProtection"}
    other = Api(api.store.fork()).create(
        claims, "default", {"metadata": {"name": "d"}, "spec": spec}
    )
    assert "finalizers" not in other.document["metadata"]


def test_a_claim_has_its_data_source_under_both_names(api: Api) -> None:
    claims = BY_KIND["v1", "PersistentVolumeClaim"]
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
    for number, field in enumerate(("dataSource", "dataSourceRef")):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        document = {"metadata": {"name": f"c{number}"}, "spec": {**spec, field: source}}
        stored = api.create(claims, "default", document).document["spec"]
        assert stored["dataSource"] == stored["dataSourceRef"] == source


def test_a_source_that_claims_never_had_is_dropped_under_the_old_name(api: Api) -> None:
    claims = BY_KIND["v1", "PersistentVolumeClaim"]
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    source = {"apiGroup": "a.b", "kind": "Populator", "name": "p"}
    document = {"metadata": {"name": "c"}, "spec": {**spec, "dataSource": source}}
    stored = api.create(claims, "default", document).document["spec"]
    assert not {"dataSource", "dataSourceRef"} & stored.keys()
    document = {"metadata": {"name": "d"}, "spec": {**spec, "dataSourceRef": source}}
    stored = api.create(claims, "default", document).document["spec"]
    assert stored["dataSource"] == stored["dataSourceRef"] == source


def test_both_fields_of_a_nodes_addresses_agree(api: Api) -> None:
    nodes = BY_KIND["v1", "Node"]
    sent: list[Document] = [
        {"podCIDR": "10.0.0.0/24"},
        {"podCIDRs": ["10.0.0.0/24"]},
        {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.1.0/24"]},
    ]
    for number, spec in enumerate(sent):
        document = {"metadata": {"name": f"n{number}"}, "spec": spec}
        stored = api.create(nodes, "", document).document["spec"]
        assert stored == {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}


JOBS = BY_KIND["batch/v1", "Job"]


def job(api: Api, **spec: Any) -> Document:
    containers = [{"name": "c", "image": "i"}]
    pods = {"restartPolicy": "Never", "containers": containers}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pods}
    document = {"metadata": {"name": "j"}, "spec": {"template": template, **spec}}
    return api.create(JOBS, "default", document).document


def test_a_job_selects_its_pods_and_has_its_older_labels_too(api: Api) -> None:
    stored = job(api)
    uid = stored["metadata"]["uid"]
    labels = {
        "app": "x",
        "controller-uid": uid,
        "job-name": "j",
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
    }
    spec = stored["spec"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"] == stored["metadata"]["labels"] == labels
    assert spec["manualSelector"] is False


def test_a_job_with_a_manual_selector_is_left_alone(api: Api) -> None:
    selector = {"matchLabels": {"app": "x"}}
    spec = job(api, manualSelector=True, selector=selector)["spec"]
    assert (spec["selector"], spec["template"]["metadata"]["labels"]) == (selector, {"app": "x"})


def service(api: Api, name: str, **spec: Any) -> Document:
    document = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}
    created: Document = api.create(SERVICES, "default", document).document["spec"]
    return created


def test_a_service_of_the_cluster(api: Api) -> None:
    spec = service(api, "s", selector={"a": "b"})
    address = spec["clusterIP"]
    assert address.startswith("10.96.")
    assert spec == {
        "clusterIP": address,
        "clusterIPs": [address],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "selector": {"a": "b"},
        "sessionAffinity": "None",
        "type": "ClusterIP",
    }


def test_services_that_are_reached_from_outside(api: Api) -> None:
    ports = [{"name": "a", "port": 53, "protocol": each} for each in ("TCP", "UDP")]
    ports[1]["name"] = "b"
    spec = service(api, "node", type="NodePort", ports=ports)
    numbers = {port["nodePort"] for port in spec["ports"]}
    assert len(numbers) == 1
    assert 30000 <= min(numbers) <= 32767
    assert spec["externalTrafficPolicy"] == "Cluster"
    balanced = service(api, "balanced", type="LoadBalancer", externalTrafficPolicy="Local")
    assert balanced["allocateLoadBalancerNodePorts"] is True
    assert balanced["healthCheckNodePort"] != balanced["ports"][0]["nodePort"]
    own = service(api, "own", type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert "nodePort" not in own["ports"][0]


def test_other_services(api: Api) -> None:
    away = service(api, "away", type="ExternalName", externalName="example.com")
    assert not away.keys() & {"clusterIP", "clusterIPs", "ipFamilies", "internalTrafficPolicy"}
    headless = service(api, "headless", clusterIP="None")
    assert headless["clusterIPs"] == ["None"]
    assert headless["ipFamilies"] == ["IPv4", "IPv6"]
    assert headless["ipFamilyPolicy"] == "RequireDualStack"
    sticky = service(api, "sticky", sessionAffinity="ClientIP")
    assert sticky["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"ipFamilyPolicy": "RequireDualStack"}, "not configured for dual-stack services"),
        ({"ipFamilies": ["IPv6"]}, r'ipFamilies\[0\]: Invalid value: "IPv6": not configured'),
        ({"ipFamilies": ["IPv4", "IPv6"]}, "when multiple IP families are specified"),
    ],
)
def test_the_cluster_has_one_family_of_addresses(api: Api, spec: Document, problem: str) -> None:
    with pytest.raises(RefusedError, match=problem):
        service(api, "s", **spec)
    assert service(api, "s", ipFamilyPolicy="PreferDualStack")["ipFamilies"] == ["IPv4"]


def test_what_a_service_was_given_stays_and_is_given_once(api: Api) -> None:
    first = service(api, "a", type="NodePort", ports=[{"port": 80, "nodePort": 30080}])
    with pytest.raises(RefusedError, match="30080: provided port is already allocated"):
        service(api, "b", type="NodePort", ports=[{"port": 80, "nodePort": 30080}])
    with pytest.raises(RefusedError, match="range of valid ports is 30000-32767"):
        service(api, "b", type="NodePort", ports=[{"port": 80, "nodePort": 80}])
    with pytest.raises(RefusedError, match="provided IP is already allocated"):
        service(api, "b", clusterIP=first["clusterIP"])
    sent = {"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 81}]}}
    updated = api.update(SERVICES, "default", "a", sent, "").document["spec"]
    assert updated["clusterIP"] == first["clusterIP"]
    assert updated["ports"][0]["nodePort"] == 30080
    sent = {"metadata": {"name": "a"}, "spec": {**updated, "type": "ClusterIP"}}
    inner = api.update(SERVICES, "default", "a", sent, "").document["spec"]
    assert "nodePort" not in inner["ports"][0]
    assert "externalTrafficPolicy" not in inner
    assert service(api, "b", type="NodePort", ports=[{"port": 80, "nodePort": 30080}])


def test_a_service_that_is_no_longer_local_gives_its_port_for_checks_back(api: Api) -> None:
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]}
    stored = api.create(SERVICES, "default", {"metadata": {"name": "s"}, "spec": local}).document
    assert stored["spec"]["healthCheckNodePort"]
    spec = {f: v for f, v in stored["spec"].items() if f != "externalTrafficPolicy"}
    spec = api.update(SERVICES, "default", "s", {**stored, "spec": spec}, "").document["spec"]
    assert spec["externalTrafficPolicy"] == "Cluster"
    assert "healthCheckNodePort" not in spec


def test_a_namespace_waits_for_those_who_asked_it_to(api: Api) -> None:
    namespaces = BY_KIND["v1", "Namespace"]
    document = {"metadata": {"name": "n"}, "spec": {"finalizers": ["example.com/hold"]}}
    stored = api.create(namespaces, "", document).document
    assert stored["spec"]["finalizers"] == ["example.com/hold", "kubernetes"]
    api.delete(namespaces, "", "n", DeleteOptions())
    kept = api.store.get(namespaces, "", "n")
    assert kept["status"]["phase"] == "Terminating"
    ended = {**kept, "spec": {"finalizers": []}}
    api.update(namespaces, "", "n", ended, "")
    assert api.store.find(namespaces, "", "n") is not None
    ended = {**api.store.get(namespaces, "", "n"), "spec": {"finalizers": []}}
    api.update(namespaces, "", "n", ended, "finalize")
    assert api.store.find(namespaces, "", "n") is None
