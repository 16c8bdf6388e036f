"""A tour of kubectl's commands: what they print and how they exit, as with Kubernetes.

The folder kubectl_tour has a console for each part of it, and the files that they use. A command is
a line after `$`; `[n]` is its exit code, if that is not 0, and an ellipsis any part of a line. The
first outputs were compared with those of kube-apiserver, its controllers and its scheduler.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.kit.kubectl import SKEW, Kubectl, bare_demo
from tests.kit.programs import needs

TOUR = Path(__file__).parent / "kubectl_tour"
CONSOLES = sorted(TOUR.glob("*.console"))
# the controllers and the measures take a moment
REPEATED = ("kubectl get", "kubectl describe", "kubectl events", "kubectl top")
SECONDS = 40.0  # nodes have metrics half a minute after they came
LOGGED = re.compile(r"^[IWE][0-9]{4} .*\n", re.MULTILINE)  # what client-go logs of its watches
NODES = 3

pytestmark = [pytest.mark.full("waits"), needs("kubectl")]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with bare_demo(tmp_path_factory.mktemp("demo"), NODES, "--tls") as daemon:
        yield daemon.kubectl


def printed(command: str, kubectl: Kubectl) -> str:
    """Returns what a shell prints, with one space for each gap, and its exit code."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=kubectl.folder,
        env={**kubectl.environment, "KUBE_EDITOR": "true"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=90,
        check=False,
    )
    output = LOGGED.sub("", SKEW.sub("", done.stdout))
    code = f"[{done.returncode}]" if done.returncode else ""
    return with_single_spaces(f"{output.rstrip()}\n{code}")


def with_single_spaces(text: str) -> str:
    """Returns the lines without what the widths of columns make of them."""
    lines = (re.sub(r"[ \t]+", " ", line).strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def in_namespace(demo: Kubectl, namespace: str, folder: Path) -> Kubectl:
    """Returns a kubectl whose namespace is a new one, in a folder with the files of the tour."""
    config = yaml.safe_load(Path(demo.environment["KUBECONFIG"]).read_text())
    for each in config["contexts"]:
        each["context"]["namespace"] = namespace
    (folder / "config").write_text(yaml.safe_dump(config))
    for name, text in yaml.safe_load((TOUR / "files.yaml").read_text()).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    kubectl = Kubectl(folder / "config", folder)
    kubectl("create", "namespace", namespace)
    return kubectl


@pytest.mark.parametrize("console", CONSOLES, ids=lambda each: each.stem)
def test_kubectl_prints_what_it_prints_with_kubernetes(
    console: Path, demo: Kubectl, tmp_path: Path
) -> None:
    kubectl = in_namespace(demo, console.stem, tmp_path)
    _, *parts = re.split(r"^\$ (.*)\n", console.read_text(), flags=re.MULTILINE)
    differences = []
    for command, shown in zip(parts[::2], parts[1::2], strict=True):
        expected = with_single_spaces(shown)
        pattern = re.compile(re.escape(expected).replace("…", ".*"))
        end = time.monotonic() + SECONDS
        while not pattern.fullmatch(got := printed(command, kubectl)):
            if not command.startswith(REPEATED) or time.monotonic() > end:
                differences.append(f"$ {command}\n{got}\n  instead of\n{expected}")
                break
            time.sleep(0.3)
    demo("delete", "namespace", console.stem, "--wait=false")
    assert not differences, "\n".join(differences)
