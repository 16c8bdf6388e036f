"""What a hollow container runs without a script, and what it leaves to one."""

from __future__ import annotations

import tarfile
from datetime import UTC, datetime
from io import BytesIO

import pytest

from berth.tools.kubernetes.kubelet.scripts.commands import Outcome
from berth.tools.kubernetes.kubelet.scripts.small_programs import (
    Surroundings,
    own_outcome,
    program_outcome,
)
from tests.kit.documents import Document, container, pod

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
MOUNTS = [{"name": "a", "mountPath": "/data/x"}, {"name": "b", "mountPath": ACCOUNT}]


def around(words: list[str] | None = None, spec: Document | None = None) -> Surroundings:
    own: Document = {**container("c"), "volumeMounts": MOUNTS, "args": words or []}
    host = pod("web-0", namespace="shop", containers=[own])
    host["spec"].update(spec or {})
    return Surroundings(host, own, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        (["true"], Outcome()),
        (["/bin/false"], Outcome(exit_code=1)),
        (["echo", "a", "b c"], Outcome("a b c\n")),
        (["echo", "-n", "a"], Outcome("a")),
        (["echo"], Outcome("\n")),
        (["sleep", "1.5"], Outcome(seconds=1.5)),
        (["sleep", "1m", "1s"], Outcome(seconds=61)),
        (["hostname"], Outcome("web-0\n")),
        (["date"], Outcome("Fri Jan  2 03:04:05 UTC 2026\n")),
        (["cat"], Outcome(echo=True)),
        (["cat", "/etc/hostname"], Outcome("web-0\n")),
        (["cat", f"{ACCOUNT}/namespace"], Outcome("shop")),
        (
            ["ls", "/"],
            Outcome("bin\ndata\ndev\netc\nhome\nproc\nroot\nsys\ntmp\nusr\nvar\n"),
        ),
        (["sh", "-c", "echo 'a  b'"], Outcome("a  b\n")),
        (["/bin/sh", "-c", "exit 3"], Outcome(exit_code=3)),
    ],
)
def test_a_small_program_answers_from_the_pod(words: list[str], outcome: Outcome) -> None:
    assert program_outcome(words, around()) == outcome


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nginx", "-v"],
        ["ls"],
        ["ls", "/srv"],
        ["cat", "/etc/passwd"],
        ["cat", "/etc/hostname", "/etc/passwd"],
        ["echo", "-e", "a"],
        ["sleep"],
        ["sleep", "infinity"],
        ["date", "-u"],
        ["hostname", "-f"],
        ["tar", "cf", "-", "/etc"],
        ["tar", "xmf", "-", "-C", "/"],
        ["sh"],
        ["sh", "-c", "echo a > b"],
        ["sh", "-c", "echo $HOME"],
        ["sh", "-c", "echo 'a"],
        ["sh", "-c", "exit x"],
        ["sh", "-c", "exit"],
    ],
)
def test_what_depends_on_an_image_is_left_to_scripts(words: list[str]) -> None:
    assert program_outcome(words, around()) is None


def test_a_file_is_packed_as_kubectl_copies_it() -> None:
    packed = program_outcome(["tar", "cf", "-", "/etc/hostname"], around())
    assert packed is not None
    with tarfile.open(fileobj=BytesIO(packed.output)) as archive:
        assert archive.getnames() == ["etc/hostname"]
        read = archive.extractfile("etc/hostname")
        assert read is not None
        assert read.read() == b"web-0\n"


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({"hostname": "db"}, "db"),
        ({"hostname": "db", "hostnameOverride": "db.example.com"}, "db.example.com"),
        ({"hostNetwork": True, "nodeName": "n1"}, "n1"),
        ({"hostname": "a" * 62 + "-b"}, "a" * 62),
    ],
)
def test_the_hostname_is_the_kubelets(spec: Document, name: str) -> None:
    assert program_outcome(["hostname"], around(spec=spec)) == Outcome(f"{name}\n")


def test_the_own_process_of_a_container() -> None:
    assert own_outcome(around(["echo", "hello"])) == Outcome("hello\n")
    assert own_outcome(around(["echo", "$(NAME)"])) is None
    assert own_outcome(around()) is None
