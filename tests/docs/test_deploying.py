"""The commands of docs/deploying.md: each is run here, or there is a reason why not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from berth.actors.scheduling.kube.yaml_documents import documents
from berth.config.options import SecureServing
from tests.docs.blocks import ROOT, blocks, write_files
from tests.kit.programs import missing

PAGE = ROOT / "docs/deploying.md"
# A command that begins with this is not run, for this reason.
NOT_RUN = {
    "podman ": "there is no container engine; test_image.py carries out the instructions",
    "python3 -m pip install --no-deps --target plugins ": "test_image.py has a plugin",
    "chmod -R a+rX plugins": "test_image.py has a plugin",
    "helm ": "there is no command helm; test_chart.py renders the chart with Helm's engine",
    "kubectl apply -k ": "it needs a cluster with RBAC; `kubectl kustomize` is run instead",
    "kubectl delete -k ": "it needs a cluster",
    "kubectl -n kube-system ": "it needs a cluster",
    "kubeadm ": "it needs a node of kubeadm; test_manifests.py applies the patch",
    "cp /etc/kubernetes/": "it needs a node of kubeadm",
    "mv /": "it needs a node of kubeadm",
    "python3 -m venv /opt": "it changes the machine; test_image.py does the same elsewhere",
    "/opt/berth/bin/pip ": "it changes the machine; test_wheel.py does the same elsewhere",
    "install ": "it changes the machine",
    "systemctl ": "it changes the machine",
    "server=$(": "it needs a cluster",
    "kubectl config view ": "it needs a cluster",
}
PROGRAMS = ("kubectl", "systemd-analyze", "promtool")
COMMANDS = [line for block in blocks(PAGE, "sh") for line in block.text.splitlines()]
RUN = [each for each in COMMANDS if not each.startswith(tuple(NOT_RUN))]


def run(command: str, folder: Path) -> str:
    """Returns the output of a shell's command. Skips the test if its program is not there."""
    for program in PROGRAMS:
        if program in command and (why := missing(program)):
            pytest.skip(why)
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files of the page and those of config/."""
    write_files(PAGE, tmp_path)
    shutil.copytree(ROOT / "config", tmp_path / "config")
    return tmp_path


def without_cluster(command: str) -> str:
    """Returns a command without the part that a cluster would have to answer."""
    token = '"$(kubectl -n kube-system create token berth --duration=24h)"'
    return (
        command.replace(" | kubectl apply -f -", "")
        .replace(token, "t")
        .replace('"$server"', "https://cluster:6443")
    )


def test_every_reason_is_that_of_a_command() -> None:
    used = {reason for reason in NOT_RUN for each in COMMANDS if each.startswith(reason)}
    assert used == NOT_RUN.keys()
    assert len(RUN) >= 6


@pytest.mark.full
def test_the_commands_work(folder: Path) -> None:
    shutil.copy(ROOT / "config/deploy/kubeadm/kube-scheduler.yaml", folder)
    (folder / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\n")
    for program in ("/opt/berth/bin/berth",):
        unit = folder / "config/deploy/systemd/berth.service"
        unit.write_text(unit.read_text().replace(program, "/bin/true"))
    printed = [run(without_cluster(command), folder) for command in RUN]
    rule = next(text for text in printed if "PrometheusRule" in text)
    (manifest,) = documents(rule.encode())
    (alerts,) = documents((ROOT / "config/alerts/berth.yaml").read_bytes())
    assert manifest["spec"] == alerts
    dashboard = next(text for text in printed if "grafana_dashboard" in text)
    (manifest,) = documents(dashboard.encode())
    assert manifest["data"].keys() == {"berth.json"}
    (config,) = documents((folder / "scheduler.conf").read_bytes())
    assert [each["user"] for each in config["users"]] == [{"token": "t"}]
    assert config["current-context"] == "berth"


@pytest.mark.full
@pytest.mark.parametrize("name", ["mine", "monitored"])
def test_the_kustomizations_of_the_page_are_rendered(name: str, folder: Path) -> None:
    objects = documents(run(f"kubectl kustomize {name}", folder).encode())
    kinds = [each["kind"] for each in objects]
    assert ("ServiceMonitor" in kinds) == (name == "monitored")
    (pod,) = (each["spec"]["template"]["spec"] for each in objects if each["kind"] == "Deployment")
    image = "registry.example/berth:0.1.0" if name == "mine" else "berth:0.1.0"
    assert pod["containers"][0]["image"] == image


@pytest.mark.full
def test_prometheus_takes_the_configuration_of_the_page(folder: Path) -> None:
    """Debian's Prometheus is built without the discovery of Kubernetes."""
    shutil.copy(ROOT / "config/alerts/berth.yaml", folder)
    file = folder / "prometheus.yml"
    (configuration,) = documents(file.read_bytes())
    (scraped,) = configuration["scrape_configs"]
    assert scraped.pop("kubernetes_sd_configs")[0]["role"] == "endpoints"
    scraped["authorization"]["credentials_file"] = str(file)
    file.write_bytes(msgspec.json.encode(configuration))
    assert "SUCCESS" in run(f"promtool check config {file}", folder)


def test_every_alert_is_in_the_table() -> None:
    (rules,) = documents((ROOT / "config/alerts/berth.yaml").read_bytes())
    table = PAGE.read_text().partition("| alert |")[2]
    for rule in rules["groups"][0]["rules"]:
        assert rule["alert"] in table.partition("\n\n")[0]


def test_the_port_of_the_page_is_the_default() -> None:
    assert f"port {SecureServing().secure_port} " in PAGE.read_text()
