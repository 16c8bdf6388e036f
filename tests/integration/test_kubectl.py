"""The embedded API server with the real kubectl: bodies in protobuf, answers in JSON."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import anyio
import pytest

from berth.actors.client.rest import Client, Connection
from berth.actors.scheduling.kube.yaml_documents import documents
from berth.tools.cluster.apiserver.app import serve
from tests.kit.cases import texts
from tests.kit.documents import Document
from tests.kit.programs import needs

PROTOBUF = "application/vnd.kubernetes.protobuf"
NAMESPACE = "/namespaces/default"

pytestmark = [pytest.mark.full, needs("kubectl")]


class Kubectl:
    """A kubectl with a separate home, for one server."""

    def __init__(self, url: str, home: Path) -> None:
        self.url = url
        self._env = {"PATH": os.environ["PATH"], "HOME": str(home)}

    async def __call__(self, *arguments: str) -> CompletedProcess[str]:
        """Returns its output as text. Raises AssertionError with its standard error if it fails,
        and TimeoutError if it hangs.
        """
        with anyio.fail_after(30):
            command = ["/usr/bin/env", "kubectl", "--server", self.url, *arguments]
            run = await anyio.run_process(command, env=self._env, check=False)
        assert run.returncode == 0, run.stderr.decode()
        return CompletedProcess(arguments, run.returncode, run.stdout.decode(), run.stderr.decode())


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with serve() as url:
        yield Kubectl(url, tmp_path)


@pytest.fixture
async def client(kubectl: Kubectl) -> AsyncIterator[Client]:
    async with Client(Connection(kubectl.url)) as connected:
        yield connected


def plain(document: Document) -> Any:
    """Returns the object without its identity, fields derived from its identity, what says who
    wrote it, and nulls.
    """
    text = json.dumps(document).replace(document["metadata"]["uid"], "the uid")
    manifest = json.loads(
        text, object_hook=lambda mapping: {k: v for k, v in mapping.items() if v is not None}
    )
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        manifest["metadata"].pop(field, None)
    for field in ("clusterIP", "clusterIPs"):
        manifest.get("spec", {}).pop(field, None)
    return manifest


# What is created, the path of its kind, and its name.
CREATED = texts(f"""
deployment web --image=nginx:1 --replicas=2 --port=80 => /apis/apps/v1{NAMESPACE}/deployments => web
job hello --image=busybox:1 -- echo hello => /apis/batch/v1{NAMESPACE}/jobs => hello
configmap settings --from-literal=color=blue => /api/v1{NAMESPACE}/configmaps => settings
secret generic keys --from-literal=user=admin => /api/v1{NAMESPACE}/secrets => keys
namespace stage => /api/v1/namespaces => stage
service clusterip web --tcp=80:8080 => /api/v1{NAMESPACE}/services => web
service externalname far --external-name=a.example => /api/v1{NAMESPACE}/services => far
role reader --verb=get --resource=pods =>
    /apis/rbac.authorization.k8s.io/v1{NAMESPACE}/roles => reader
clusterrole reader --verb=get --non-resource-url=/metrics =>
    /apis/rbac.authorization.k8s.io/v1/clusterroles => reader
rolebinding readers --role=reader --group=dev --serviceaccount=default:robot =>
    /apis/rbac.authorization.k8s.io/v1{NAMESPACE}/rolebindings => readers
clusterrolebinding readers --clusterrole=reader --user=ann =>
    /apis/rbac.authorization.k8s.io/v1/clusterrolebindings => readers
quota few --hard=pods=2,requests.cpu=1 --scopes=NotBestEffort =>
    /api/v1{NAMESPACE}/resourcequotas => few
serviceaccount robot => /api/v1{NAMESPACE}/serviceaccounts => robot
pdb half --selector=app=web --min-available=50% =>
    /apis/policy/v1{NAMESPACE}/poddisruptionbudgets => half
pdb none --selector=app=web --max-unavailable=0 =>
    /apis/policy/v1{NAMESPACE}/poddisruptionbudgets => none
priorityclass low --value=-5 --description=d =>
    /apis/scheduling.k8s.io/v1/priorityclasses => low
priorityclass zero --value=0 => /apis/scheduling.k8s.io/v1/priorityclasses => zero
""")


@pytest.mark.parametrize(
    ("arguments", "path", "name"), CREATED, ids=[arguments for arguments, _, _ in CREATED]
)
async def test_a_protobuf_body_creates_the_same_object_as_its_json(
    kubectl: Kubectl, client: Client, arguments: str, path: str, name: str
) -> None:
    what, *rest = arguments.split(" -- ")
    program = ["--", *rest[0].split()] if rest else []
    shown = await kubectl("create", *what.split(), "--dry-run=client", "-o", "json", *program)
    expected = await client.call("POST", f"{path}?dryRun=All", dict, json.loads(shown.stdout))
    run = await kubectl("create", *what.split(), "-v=8", *program)
    if PROTOBUF not in run.stderr.partition("Content-Type: ")[2].partition("\n")[0]:
        pytest.skip("this kubectl creates in JSON")
    assert f"{name} created" in run.stdout
    stored = await client.call("GET", f"{path}/{name}", dict)
    assert plain(stored) == plain(expected)
    again = await kubectl("get", "-o", "json", what.split()[0], name)
    stored["metadata"].pop("managedFields", None)  # kubectl leaves them out
    assert json.loads(again.stdout) == stored


async def test_a_deployment_is_read_as_it_was_created(kubectl: Kubectl, client: Client) -> None:
    await kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=2", "--port=80")
    stored = await client.call("GET", f"/apis/apps/v1{NAMESPACE}/deployments/web", dict)
    spec = stored["spec"]
    assert (spec["replicas"], spec["selector"]) == (2, {"matchLabels": {"app": "web"}})
    assert spec["strategy"]["type"] == "RollingUpdate"
    (container,) = spec["template"]["spec"]["containers"]
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


WORDS = (
    "n y Y on Off ~ 08 1.0 1e3 .5 -.5 017 -017 0o17 0b11 0B11 0x1F 0X1f 0x 0o"
    " 12:30 1_000 1__0 _1 1e999 12e4567 2026-01-02 "
    "+7 +x . 1. 0.1e-7 1e21 -0 -0.0 true null '' \"on\" 100m 1Gi"
)


async def test_kubectl_and_berth_read_the_same_values_from_yaml(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    tagged = ["!!str 5", "! 5", "!!float 5", '!!int "5"', "!!bool yes", "{1: a, 1.5: b, yes: c}"]
    lines = [f"  k{number}: {word}\n" for number, word in enumerate([*WORDS.split(), *tagged])]
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: words}\ndata:\n" + "".join(lines)
    (tmp_path / "words.yaml").write_text(text)
    options = ("--dry-run=client", "--validate=false", "-o", "json")
    run = await kubectl("create", "-f", str(tmp_path / "words.yaml"), *options)
    theirs = json.loads(run.stdout)["data"]
    (ours,) = documents(text.encode())
    assert {key: repr(value) for key, value in ours["data"].items()} == {
        k: repr(v) for k, v in theirs.items()
    }


@pytest.mark.parametrize("verb", ["create", "apply"])
@pytest.mark.parametrize("kind", ["List", "ConfigMapList"])
async def test_the_items_of_a_list_are_created_and_validated_one_by_one(
    kubectl: Kubectl, client: Client, tmp_path: Path, verb: str, kind: str
) -> None:
    def config_map(name: str, **fields: Any) -> Document:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **fields}

    file = tmp_path / "list.json"
    file.write_text(
        json.dumps({"apiVersion": "v1", "kind": kind, "items": [config_map("a"), config_map("b")]})
    )
    run = await kubectl(verb, "-f", str(file))
    assert run.stdout == "configmap/a created\nconfigmap/b created\n"
    shown = await kubectl("get", "configmaps", "a", "b", "-o", "yaml")
    file.write_text(shown.stdout)
    assert (
        await kubectl("replace", "-f", str(file))
    ).stdout == "configmap/a replaced\nconfigmap/b replaced\n"
    file.write_text(
        json.dumps({"apiVersion": "v1", "kind": kind, "items": [config_map("c", flavour="sweet")]})
    )
    with pytest.raises(AssertionError, match='unknown field "flavour"'):
        await kubectl(verb, "-f", str(file))


@pytest.mark.parametrize("options", [[], ["--disable-eviction"]], ids=["eviction", "deletion"])
async def test_a_node_is_drained(kubectl: Kubectl, client: Client, options: list[str]) -> None:
    pods = f"/api/v1{NAMESPACE}/pods"
    await client.call("POST", "/api/v1/nodes", dict, {"metadata": {"name": "n"}})
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    await client.call("POST", pods, dict, {"metadata": {"name": "p"}, "spec": spec})
    run = await kubectl("drain", "n", "--force", "--grace-period=0", "--timeout=20s", *options)
    assert "node/n drained" in run.stdout
    assert (await client.call("GET", pods, dict))["items"] == []


async def test_events_of_either_api_are_shown_with_age_count_and_message(
    kubectl: Kubectl, client: Client
) -> None:
    pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    created = await client.call("POST", f"/api/v1{NAMESPACE}/pods", dict, pod)
    about = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "web",
        "uid": created["metadata"]["uid"],
    }
    now = datetime.now(UTC)
    hour_ago, lately = (f"{now - timedelta(minutes=m):%Y-%m-%dT%H:%M:%S.%f}Z" for m in (60, 20))
    for name, note, series in (
        ("web.1", "no room", {"series": {"count": 7, "lastObservedTime": lately}}),
        ("web.2", "no node", {}),
    ):
        event = {
            "metadata": {"name": name},
            "eventTime": hour_ago,
            "reportingController": "default-scheduler",
            "reportingInstance": "default-scheduler-here",
            "action": "Scheduling",
            "reason": "FailedScheduling",
            "regarding": about,
            "note": note,
            "type": "Warning",
        }
        await client.call(
            "POST", f"/apis/events.k8s.io/v1{NAMESPACE}/events", dict, {**event, **series}
        )
    told = [
        line.split(maxsplit=4) for line in (await kubectl("get", "events")).stdout.splitlines()[1:]
    ]
    assert sorted(told) == [
        ["20m", "Warning", "FailedScheduling", "pod/web", "no room"],
        ["60m", "Warning", "FailedScheduling", "pod/web", "no node"],
    ]
    wide = (
        (await kubectl("get", "events.events.k8s.io", "web.1", "-o", "wide"))
        .stdout.splitlines()[1]
        .split()
    )
    assert wide[4:6] == ["default-scheduler,", "default-scheduler-here"]
    assert wide[-3:] == ["60m", "7", "web.1"]
    for command in (("describe", "pod", "web"), ("events", "--for", "pod/web")):
        shown = (await kubectl(*command)).stdout
        assert re.search(r"20m \(x7 over 60m\) .* no room", shown)
        assert re.search(r" 60m +default-scheduler +no node|\n60m +Warning .* no node", shown)


async def refused(kubectl: Kubectl, *arguments: str) -> str:
    """Runs a command that fails; returns its standard error."""
    with pytest.raises(AssertionError) as failed:
        await kubectl(*arguments)
    return str(failed.value)


async def test_the_administrator_may_do_everything_and_others_what_roles_give(
    kubectl: Kubectl,
) -> None:
    assert (await kubectl("auth", "can-i", "delete", "nodes")).stdout == "yes\n"
    assert "*.*" in (await kubectl("auth", "can-i", "--list")).stdout
    assert "kubernetes-admin" in (await kubectl("auth", "whoami")).stdout
    ann = ("--as=ann", "--as-group=dev", "--as-uid=7")
    who = (await kubectl("auth", "whoami", *ann)).stdout
    assert re.search(r"Username +ann\n", who)
    assert re.search(r"Groups +\[dev system:authenticated\]\n", who)
    assert re.search(r"UID +7\n", who)
    message = await refused(kubectl, "get", "pods", "--as=ann")
    assert (
        'pods is forbidden: User "ann" cannot list resource "pods" in API group "" '
        'in the namespace "default"'
    ) in message
    await kubectl("create", "rolebinding", "view", "--clusterrole=view", "--user=ann")
    await kubectl("get", "pods", "--as=ann")
    assert (await kubectl("auth", "can-i", "list", "pods", "--as=ann")).stdout == "yes\n"
    assert "pods" in (await kubectl("auth", "can-i", "--list", "--as=ann")).stdout
    assert "forbidden" in await refused(kubectl, "create", "configmap", "m", "--as=ann")


async def test_a_service_account_has_the_rights_that_are_bound_to_it(
    kubectl: Kubectl,
) -> None:
    await kubectl("create", "serviceaccount", "robot")
    token = (await kubectl("create", "token", "robot", "--duration=1h")).stdout
    assert token.count(".") == 2
    # kubectl sends no token without TLS
    robot = "--as=system:serviceaccount:default:robot"
    who = (await kubectl("auth", "whoami", robot)).stdout
    assert "[system:serviceaccounts system:serviceaccounts:default system:authenticated]" in who
    assert "cannot list resource" in await refused(kubectl, "get", "nodes", robot)
    reader = ("create", "clusterrole", "reader", "--verb=list", "--resource=nodes")
    await kubectl(*reader)
    bound = ("--clusterrole=reader", "--serviceaccount=default:robot")
    await kubectl("create", "clusterrolebinding", "reader", *bound)
    await kubectl("get", "nodes", robot)


async def test_a_quota_is_shown_and_refuses_what_exceeds_it(kubectl: Kubectl) -> None:
    hard = "count/configmaps=2,limits.cpu=1500m,requests.memory=1Gi"
    await kubectl("create", "quota", "few", f"--hard={hard}")
    await kubectl("create", "configmap", "a")
    problem = (
        'configmaps "b" is forbidden: exceeded quota: few, requested: count/configmaps=1, '
        "used: count/configmaps=2, limited: count/configmaps=2"
    )
    with pytest.raises(AssertionError, match=problem):
        await kubectl("create", "configmap", "b")
    name, *row = (await kubectl("get", "quota", "--no-headers")).stdout.split("   ")
    assert name == "few"
    amounts = [cell.strip() for cell in row if cell.strip()]
    assert amounts[:2] == ["count/configmaps: 2/2, requests.memory: 0/1Gi", "limits.cpu: 0/1500m"]
    described = (await kubectl("describe", "quota", "few")).stdout
    assert re.search(r"count/configmaps +2 +2\n", described)
    assert "few" in (await kubectl("describe", "namespace", "default")).stdout


POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  validations:
  - expression: object.spec.replicas <= 3
    messageExpression: "'at most 3 replicas, not ' + string(object.spec.replicas)"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: here}
spec: {policyName: replicas, validationActions: [Deny]}
"""


async def test_an_admission_policy_refuses_writes(kubectl: Kubectl, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    await kubectl("apply", "-f", str(file))
    deployment = ("create", "deployment", "web", "--image=nginx:1", "--replicas")
    why = (
        "ValidatingAdmissionPolicy 'replicas' with binding 'here' denied request: "
        "at most 3 replicas, not 4"
    )
    assert why in await refused(kubectl, *deployment, "4")
    await kubectl(*deployment, "3")
    change = '{"spec": {"replicas": 4}}'
    assert why in await refused(kubectl, "patch", "deployment", "web", "-p", change)
    file.write_text(POLICY.replace("object.spec.replicas <= 3", "object.spec.replicas <="))
    assert "spec.validations[0].expression: Invalid value" in await refused(
        kubectl, "apply", "-f", str(file)
    )


async def test_a_cron_job_and_a_job_from_it(kubectl: Kubectl) -> None:
    run = ("--image=nginx:1", "--schedule=*/5 * * * *", "--", "true")
    await kubectl("create", "cronjob", "tick", *run)
    listed = await kubectl("get", "cj", "--no-headers")
    assert " ".join(listed.stdout.split()[:10]) == "tick */5 * * * * <none> False 0 <none>"
    await kubectl("create", "job", "now", "--from=cronjob/tick")
    described = await kubectl("describe", "job", "now")
    assert "Controlled By:    CronJob/tick" in described.stdout
    assert "nginx:1" in described.stdout


async def test_an_autoscaler_in_both_versions(kubectl: Kubectl) -> None:
    await kubectl("create", "deployment", "web", "--image=nginx")
    await kubectl("autoscale", "deployment", "web", "--min=2", "--max=5")
    paths = {version: f"/apis/autoscaling/{version}{NAMESPACE}" for version in ("v1", "v2")}
    specs = {
        version: json.loads(
            (await kubectl("get", "--raw", f"{path}/horizontalpodautoscalers/web")).stdout
        )["spec"]
        for version, path in paths.items()
    }
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    common = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 5}
    assert specs["v1"] == {**common, "targetCPUUtilizationPercentage": 80}
    share = {"type": "Utilization", "averageUtilization": 80}
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": share}}]
    assert specs["v2"] == {**common, "metrics": metrics}
    shown = (await kubectl("get", "hpa", "--no-headers")).stdout.split()[:-1]
    assert shown == ["web", "Deployment/web", "cpu:", "<unknown>/80%", "2", "5", "0"]
    described = (await kubectl("describe", "hpa", "web")).stdout
    assert "resource cpu on pods  (as a percentage of request):  <unknown> / 80%" in described
    explained = (await kubectl("explain", "hpa.spec.behavior.scaleUp.tolerance")).stdout
    assert "Quantity" in explained
