"""The manifests of config/deploy, as kustomize renders them: the API server takes them, and what
they say about names, rights and safety is consistent.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest

from berth.actors.cli.run import run
from berth.actors.configuration.file import load_file
from berth.actors.scheduling.kube.yaml_documents import documents
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document
from tests.kit.programs import needs
from tests.kit.rbac import Authorizer, attributes_of
from tests.kit.rights import ACCOUNT, DEPLOY, NAMESPACE
from tests.kit.stores import fresh_store

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
KUBEADM = DEPLOY / "kubeadm/kube-scheduler.yaml"

overlays = pytest.mark.parametrize(
    ("overlay", "lease", "scheduler"),
    [("beside", "berth", "berth"), ("in-place", "kube-scheduler", "default-scheduler")],
)


def kubectl(*arguments: str | Path) -> bytes:
    """Raises CalledProcessError, with its standard error as a note."""
    done = subprocess.run(["kubectl", *arguments], capture_output=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@lru_cache
def rendered(folder: Path) -> tuple[Document, ...]:
    return tuple(documents(kubectl("kustomize", folder)))


def only(manifests: tuple[Document, ...], kind: str) -> Document:
    (document,) = (each for each in manifests if each["kind"] == kind)
    return document


def overlay_of(name: str) -> tuple[Document, ...]:
    return rendered(DEPLOY / "overlays" / name)


def accepted(document: Document) -> Document:
    """Returns the object as the embedded API server stores it, if it knows the kind."""
    kind = BY_KIND.get((document["apiVersion"], document["kind"]))
    if kind is None:
        return document
    api = Api(fresh_store(), "Strict")
    api.seed()
    stored = api.create(kind, document["metadata"].get("namespace", ""), document)
    assert api.warnings == []
    return stored.document


@pytest.mark.full
@needs("kubectl")
@overlays
def test_the_api_server_takes_what_an_overlay_renders(
    overlay: str, lease: str, scheduler: str
) -> None:
    manifests = overlay_of(overlay)
    assert {each["kind"] for each in manifests} == {
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "Deployment",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    }
    for document in manifests:
        accepted(document)
        if not document["kind"].startswith("ClusterRole"):
            assert document["metadata"]["namespace"] == NAMESPACE


@pytest.mark.full
@needs("kubectl")
@overlays
def test_an_overlay_takes_the_lease_that_it_may_take(
    overlay: str, lease: str, scheduler: str, tmp_path: Path
) -> None:
    manifests = overlay_of(overlay)
    file = tmp_path / "scheduler.yaml"
    file.write_text(only(manifests, "ConfigMap")["data"]["scheduler.yaml"])
    configuration = load_file(str(file))
    assert configuration.leader_election.resource_name == lease
    assert [profile.scheduler_name for profile in configuration.profiles] == [scheduler]
    may = Authorizer(manifests, NAMESPACE, ACCOUNT).granting
    assert may(attributes_of("POST", LEASES))
    allowed = [
        name
        for name in ("berth", "kube-scheduler", "kube-controller-manager")
        if may(attributes_of("PUT", f"{LEASES}/{name}"))
    ]
    assert allowed == [lease]


@pytest.mark.full
@needs("kubectl")
def test_the_pods_are_as_the_strictest_policy_wants_them() -> None:
    """The rules of the Pod Security Standard "restricted", and a root that is read-only."""
    spec = only(overlay_of("beside"), "Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    kinds = [volume.keys() - {"name"} for volume in spec["volumes"]]
    assert kinds == [{"configMap"}, {"emptyDir"}]


@pytest.mark.full
@needs("kubectl")
def test_selectors_select_the_pods() -> None:
    manifests = overlay_of("beside")
    deployment = only(manifests, "Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    selectors = [
        deployment["selector"]["matchLabels"],
        only(manifests, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        only(manifests, "Service")["spec"]["selector"],
        *(
            each["labelSelector"]["matchLabels"]
            for each in deployment["template"]["spec"]["topologySpreadConstraints"]
        ),
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)
    assert deployment["replicas"] == 2


@pytest.mark.full
@needs("kubectl")
@pytest.mark.parametrize("component", ["monitoring", "negotiation"])
def test_a_component_can_be_added(component: str, tmp_path: Path) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    overlay = tmp_path / "deploy/mine"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(
        f"resources: [../overlays/beside]\ncomponents: [../components/{component}]\n"
    )
    manifests, before = rendered(overlay), overlay_of("beside")
    added = [each for each in manifests if each not in before]
    assert added
    assert len(added) == len(manifests) - len(before)
    if component == "monitoring":
        monitor, service = only(manifests, "ServiceMonitor")["spec"], only(manifests, "Service")
        labels = service["metadata"]["labels"]
        assert monitor["selector"]["matchLabels"].items() <= labels.items()
        (endpoint,) = monitor["endpoints"]
        assert endpoint["port"] == service["spec"]["ports"][0]["name"]


# ------------------------------------------------------------------------------------------ kubeadm

# What kubeadm 1.36 writes, from getSchedulerCommand and GetStaticPodSpecs.
FLAGS = [
    "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
    "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
    "--bind-address=127.0.0.1",
    "--kubeconfig=/etc/kubernetes/scheduler.conf",
    "--leader-elect=true",
]


def of_kubeadm() -> Document:
    (pod,) = documents(KUBEADM.read_bytes())
    (container,) = pod["spec"]["containers"]
    container["image"] = "registry.k8s.io/kube-scheduler:v1.36.2"
    del container["securityContext"]
    static_pod: Document = pod
    return static_pod


def test_the_static_pod_has_kubeadms_command() -> None:
    (pod,) = documents(KUBEADM.read_bytes())
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["kube-scheduler", *FLAGS]
    pod["metadata"]["uid"] = "u"
    accepted(pod)


@pytest.mark.full
@needs("kubectl")
def test_kubeadms_patch_makes_the_static_pod(tmp_path: Path) -> None:
    written = tmp_path / "kube-scheduler.yaml"
    written.write_text(json.dumps(of_kubeadm()))
    patch = DEPLOY / "kubeadm/patches/kube-scheduler+strategic.yaml"
    patched = kubectl(
        "patch", "--local", "--type=strategic", f"--patch-file={patch}", f"--filename={written}",
        "--output=json",
    )  # fmt: skip
    (shipped,) = documents(KUBEADM.read_bytes())
    assert json.loads(patched) == shipped


def test_every_manifest_names_the_same_image() -> None:
    files = [
        DEPLOY / "base/deployment.yaml",
        DEPLOY / "shadow/deployment.yaml",
        KUBEADM,
        DEPLOY / "kubeadm/patches/kube-scheduler+strategic.yaml",
    ]
    images = {
        container["image"]
        for file in files
        for document in documents(file.read_bytes())
        for spec in [document["spec"].get("template", document)["spec"]]
        for container in spec["containers"]
    }
    assert len(images) == 1


# ------------------------------------------------------------------------------------------- shadow


@pytest.mark.full
@needs("kubectl")
def test_the_shadow_runs_as_its_own_account() -> None:
    manifests = rendered(DEPLOY / "shadow")
    assert [each["kind"] for each in manifests] == [
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Deployment",
    ]
    for document in manifests:
        accepted(document)
    spec = only(manifests, "Deployment")["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == only(manifests, "ServiceAccount")["metadata"]["name"]
    (container,) = spec["containers"]
    assert container["command"] == ["berth", "shadow"]


# ------------------------------------------------------------------------------------------ systemd


def test_the_service_finds_its_kubeconfig() -> None:
    """systemd replaces %d by the folder of the service's credentials."""
    unit = (DEPLOY / "systemd/berth.service").read_text()
    configuration = load_file(DEPLOY / "systemd/scheduler.yaml")
    name = re.findall(r"^LoadCredential=(\w+):", unit, re.MULTILINE)
    assert [f"/run/credentials/berth.service/{each}" for each in name] == [
        configuration.client_connection.kubeconfig
    ]
    assert set(re.findall(r"%d/(\w+)", unit)) == set(name)


def test_its_flags_are_those_of_berth_run() -> None:
    unit = (DEPLOY / "systemd/berth.service").read_text()
    flags_of_run = {flag for parameter in run.params for flag in parameter.opts}
    flags = re.findall(r"^    (--[\w-]+)=", unit, re.MULTILINE)
    assert len(flags) == 4
    assert set(flags) <= flags_of_run
