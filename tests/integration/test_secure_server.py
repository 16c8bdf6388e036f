"""`berth apiserver` and `berth demo` with --secure, and kubectl as several users."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.kubectl import Daemon, Kubectl
from tests.kit.programs import needs

pytestmark = [pytest.mark.full, needs("kubectl")]
ACCOUNT = "system:serviceaccount:default:robot"
ENVIRONMENT = re.compile(r"KUBERNETES_SERVICE_HOST=(\S+) KUBERNETES_SERVICE_PORT=(\d+)")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("secure")
    options = ("--service-account-dir", str(folder / "account"), "--service-account")
    daemon = Daemon(folder, "apiserver", "--secure", *options, "default/robot")
    yield daemon
    said = daemon.complaints()
    assert daemon.end() == 0
    assert "Traceback" not in said


def with_token(server: Daemon, token: str) -> Kubectl:
    """Returns a kubectl that shows this token and no certificate."""
    host, port = ENVIRONMENT.search(server.complaints()).groups()  # type: ignore[union-attr]
    kubectl = Kubectl(Path(os.devnull), server.kubectl.folder)
    flags = (
        f"--server=https://{host}:{port}",
        f"--certificate-authority={server.kubectl.folder / 'account/ca.crt'}",
        f"--token={token}",
    )
    run = kubectl.run

    def run_as(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return run(*flags, *arguments, stdin=stdin)

    kubectl.run = run_as  # type: ignore[method-assign]
    return kubectl


def test_the_administrator_may_do_everything(server: Daemon) -> None:
    kubectl = server.kubectl
    assert kubectl("auth", "can-i", "*", "*") == "yes\n"
    assert "system:masters" in kubectl("auth", "whoami")
    assert kubectl.run("auth", "can-i", "get", "pods", "--as", "bob").stdout == "no\n"
    assert "forbidden" in kubectl.refused("get", "secrets", "--as", "bob", "--as-group", "dev")


def test_a_service_account_has_the_rights_of_its_bindings(server: Daemon) -> None:
    robot = with_token(server, (server.kubectl.folder / "account/token").read_text())
    assert ACCOUNT in robot("auth", "whoami")
    assert f'User "{ACCOUNT}" cannot list resource "pods"' in robot.refused("get", "pods")
    binding = ("create", "rolebinding", "v", "--clusterrole=view")
    server.kubectl(*binding, "--serviceaccount=default:robot")
    assert robot("get", "pods", "-o", "name") == ""
    assert "cannot list resource" in robot.refused("get", "secrets")
    rights = ("create", "role", "binder", "--verb=create", "--resource=rolebindings")
    server.kubectl(*rights)
    binder = ("create", "rolebinding", "b", "--role=binder", "--serviceaccount=default:robot")
    server.kubectl(*binder)
    more = ("create", "rolebinding", "w", "--clusterrole=edit", "--user=x")
    assert "is attempting to grant RBAC permissions not currently held" in robot.refused(*more)


def test_a_token_that_is_not_valid_is_refused(server: Daemon) -> None:
    assert "You must be logged in to the server" in with_token(server, "x").refused("get", "pods")


def test_the_scheduler_of_a_demo_has_the_rights_of_kube_scheduler(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "demo", "--keep", "--nodes", "2", "--secure")
    wait = ("wait", "pod", "--all", "--for=condition=PodScheduled", "--timeout=60s")
    assert "condition met" in daemon.kubectl(*wait)
    said = daemon.complaints()
    assert daemon.end() == 0
    assert "forbidden" not in said
    assert "Traceback" not in said
