"""Scripts of containers: tables of commands, ports of this machine, and whose script counts."""

from __future__ import annotations

import pytest

from berth.actors.scheduling.kube.labels import from_label_selector
from berth.actors.scheduling.kube.meta import LabelSelector
from berth.tools.kubernetes.kubelet.scripts.commands import (
    CommandTable,
    Outcome,
    ScriptError,
    read_outcome,
    read_table,
)
from berth.tools.kubernetes.kubelet.scripts.ports import AllowedPorts, read_ports
from berth.tools.kubernetes.kubelet.scripts.script_rules import Process, ScriptRule, Scripts
from tests.kit.documents import pod

TABLE = """\
date: Thu Jan 1
"true":
ls /: |
  bin
  etc
sh -c *: {exitCode: 3, stderr: oops}
sh -c 'echo hi': hi
sh *: {stdout: shell}
tar *: {stdoutBase64: AAE=}
nproc: 4
"""


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        (["date"], Outcome("Thu Jan 1\n")),
        (["true"], Outcome()),
        (["ls", "/"], Outcome("bin\netc\n")),
        (["sh", "-c", "echo hi"], Outcome("hi\n")),
        (["sh", "-c", "other"], Outcome(stderr="oops", exit_code=3)),
        (["sh", "-c"], Outcome(stderr="oops", exit_code=3)),
        (["sh"], Outcome("shell")),
        (["nproc"], Outcome("4\n")),
        (["date", "foo"], None),
        (["ls"], None),
    ],
)
def test_the_entry_that_fits_best_counts(command: list[str], outcome: Outcome | None) -> None:
    assert read_table(TABLE).find(command) == outcome


def test_output_may_be_bytes() -> None:
    found = read_table(TABLE).find(["tar", "cf", "-", "/x"])
    assert found is not None
    assert found.output == b"\x00\x01"


def test_a_star_alone_is_every_command() -> None:
    table = read_table('{"*": any, date: now}')
    assert (table.find(["x", "y"]), table.find(["date"])) == (Outcome("any\n"), Outcome("now\n"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- date", "expected a mapping of commands"),
        ("a: [1]", "'a': expected text, or a mapping of stdout"),
        ("a: {stdin: x}", "'a': expected text, or a mapping of stdout"),
        ("a: {exitCode: 256}", "exitCode: expected 0 to 255, got 256"),
        ("a: {seconds: -1}", "seconds: expected 0 to 3600"),
        ("a: {stdoutBase64: '*'}", "stdoutBase64: expected base64"),
        ("'a \"b': x", "No closing quotation"),
        ("a: b: c", "line 1"),
        ("", "expected one document, got 0"),
    ],
)
def test_a_wrong_table_says_where(text: str, problem: str) -> None:
    with pytest.raises(ScriptError) as wrong:
        read_table(text)
    assert problem in str(wrong.value)


def test_ports_are_pairs_without_a_host() -> None:
    assert read_ports("80=18080, 443=18443") == {80: 18080, 443: 18443}
    assert read_ports("") == {}


@pytest.mark.parametrize(
    "text",
    [
        "80",
        "80=example.com:80",
        "80=169.254.169.254:80",
        "80=127.0.0.1:80",
        "80=localhost",
        "0=1",
        "80=65536",
        "80=-1",
        "٨٠=80",
    ],
)
def test_whatever_is_no_pair_of_ports_is_refused(text: str) -> None:
    with pytest.raises(ScriptError, match="expected"):
        read_ports(text)


def test_allowed_ports_are_numbers_and_ranges() -> None:
    allowed = AllowedPorts("8080, 9000-9002")
    assert [port for port in (8079, 8080, 8999, 9000, 9002, 9003) if port in allowed] == [
        8080,
        9000,
        9002,
    ]
    with pytest.raises(ScriptError, match="expected ports such as 8080,9000-9010"):
        AllowedPorts("http")


def test_an_annotation_names_only_ports_that_are_allowed() -> None:
    talking = pod("p", annotations={"berth.dev/ports": "80=18080,81=22"})
    assert Scripts(allowed=AllowedPorts("18000-19000")).port(talking, 80) == 18080
    assert Scripts(allowed=AllowedPorts("18000-19000")).port(talking, 82) is None
    with pytest.raises(ScriptError, match="port 22 of this machine is not allowed"):
        Scripts(allowed=AllowedPorts("18000-19000")).port(talking, 81)
    with pytest.raises(ScriptError, match="port 18080 of this machine is not allowed"):
        Scripts().port(talking, 80)


def test_rules_may_name_any_port_of_this_machine() -> None:
    rules = [ScriptRule(ports={80: 1}), ScriptRule(ports=lambda pod, port: port + 1)]
    assert Scripts(rules).port(pod("p"), 80) == 1
    assert Scripts(rules).port(pod("p"), 81) == 82


def test_an_annotation_counts_before_the_rules() -> None:
    rules = [
        ScriptRule(
            from_label_selector(LabelSelector(match_labels={"app": "web"})),
            ("shop",),
            ("c",),
            logs="of the rule",
            exec=CommandTable({"a": "1"}),
            attach=Outcome("attached"),
        ),
        ScriptRule(logs="of all", exec=CommandTable({"a": "2", "b": "3"})),
    ]
    scripts = Scripts(rules)
    web = pod("p", namespace="shop", labels={"app": "web"})
    assert scripts.logs(web, "c", previous=False) == "of the rule"
    assert scripts.logs(web, "side", previous=False) == "of all"
    assert scripts.logs(pod("p", namespace="shop"), "c", previous=False) == "of all"
    assert scripts.command(web, "c", ["a"]) == Outcome("1\n")
    assert scripts.command(web, "c", ["b"]) == Outcome("3\n")
    assert scripts.command(web, "c", ["x"]) is None
    assert scripts.attach(web, "c") == Outcome("attached")
    assert scripts.attach(web, "side") is None
    said = pod(
        "p",
        annotations={
            "berth.dev/logs": "of the pod",
            "logs.berth.dev/side": "of the sidecar",
            "berth.dev/previous-logs": "before",
            "berth.dev/exec": "b: mine",
            "attach.berth.dev/c": "hello",
        },
    )
    assert scripts.logs(said, "c", previous=False) == "of the pod"
    assert scripts.logs(said, "side", previous=False) == "of the sidecar"
    assert scripts.logs(said, "c", previous=True) == "before"
    assert scripts.command(said, "c", ["b"]) == Outcome("mine\n")
    assert scripts.command(said, "c", ["a"]) == Outcome("2\n")
    assert scripts.attach(said, "c") == read_outcome("hello", "")
    assert Scripts().logs(pod("p"), "c", previous=False) == ""


def test_a_function_may_stand_for_all_commands() -> None:
    async def run(process: Process) -> int:
        return len(process.command)

    assert Scripts([ScriptRule(exec=run)]).command(pod("p"), "c", ["x"]) is run
