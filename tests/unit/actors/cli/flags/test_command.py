"""The forms in which flags can be written."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner, Result

from berth.actors.cli.flags.command import FlagCommand
from berth.actors.cli.flags.table import FLAGS, GROUPS, Flags


def parsed(*args: str) -> tuple[Result, list[Flags]]:
    """Returns the result of a command with these arguments, and its flags if it was called."""
    called: list[Flags] = []

    @click.command(cls=FlagCommand)
    def command(flags: Flags) -> None:
        called.append(flags)

    return CliRunner().invoke(command, list(args)), called


def flags_of(*args: str) -> Flags:
    result, called = parsed(*args)
    assert result.exit_code == 0, result.output
    (flags,) = called
    return flags


@pytest.mark.parametrize(
    "args", [["-v", "2"], ["-v2"], ["-v=2"], ["--v=2"], ["--v", "2"], ["-v=1", "--v", "2"]]
)
def test_the_forms_of_a_value(args: list[str]) -> None:
    assert flags_of(*args)["v"] == 2


@pytest.mark.parametrize(
    ("args", "value"),
    [
        ([], True),
        (["--leader-elect"], True),
        (["--leader-elect=true"], True),
        (["--leader-elect=false"], False),
        (["--leader-elect=F"], False),
        (["--leader_elect=0"], False),
        (["--leader-elect=false", "--leader-elect"], True),
    ],
)
def test_the_forms_of_a_boolean(args: list[str], value: bool) -> None:
    flags = flags_of(*args)
    assert flags["leader-elect"] is value
    assert flags.is_set("leader-elect") is bool(args)


def test_a_boolean_takes_no_value_from_the_next_argument() -> None:
    result, called = parsed("--leader-elect", "false")
    assert result.exit_code == 2
    assert "unexpected extra argument (false)" in result.output
    assert not called


def test_a_value_may_look_like_a_flag() -> None:
    flags = flags_of("--kubeconfig", "--v=3", "--config=-v_2", "--tls_cert_file", "a_b")
    assert (flags["kubeconfig"], flags["config"], flags["v"]) == ("--v=3", "-v_2", 0)
    assert flags["tls-cert-file"] == "a_b"


def test_lists_grow_with_every_occurrence_and_replace_the_default() -> None:
    flags = flags_of(
        "--requestheader-group-headers=a,b",
        "--requestheader-group-headers",
        "c",
        "--allow-metric-labels=m,l=1,2",
        "--allow-metric-labels=n,l=3",
        "--vmodule=a=2",
        "--vmodule=b*=3",
    )
    assert flags["requestheader-group-headers"] == ("a", "b", "c")
    assert flags["requestheader-username-headers"] == ("x-remote-user",)
    assert flags["allow-metric-labels"] == {"m,l": "1,2", "n,l": "3"}
    assert flags["vmodule"] == (("a", 2), ("b*", 3))


def test_empty_arguments_are_ignored() -> None:
    assert flags_of("", "--v=1", "")["v"] == 1


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--leader-elekt=false"], "'--leader-elect'"),
        (["--port=10251"], "'--secure-port'"),
        (["--secure-port"], "'--secure-port' requires an argument"),
        (["--secure-port=x"], "'--secure-port': expected an integer, got 'x'"),
        (["--leader-elect=maybe"], "'--leader-elect': expected true or false, got 'maybe'"),
        (["-v"], "'--v' requires an argument"),
        (["-x"], "'-x'"),
        (["one"], "unexpected extra argument (one)"),
    ],
)
def test_a_wrong_argument_is_a_usage_error_that_names_it(args: list[str], says: str) -> None:
    result, called = parsed(*args)
    assert result.exit_code == 2
    assert says in result.output
    assert not called


def test_help_has_every_flag_in_its_group() -> None:
    result, _ = parsed("--help")
    assert result.exit_code == 0
    sections = result.output.split(" flags:\n")
    for title, flags in zip(GROUPS, GROUPS.values(), strict=True):
        at = next(i for i, section in enumerate(sections) if section.endswith(title))
        shown = sections[at + 1].split("\n\n")[0].split()
        assert {f"--{flag.name}" for flag in flags} <= set(shown), title


def test_every_flag_with_its_value_as_text() -> None:
    texts = flags_of("--v=4", "--disabled-metrics=a,b", "--bind-address=127.0.0.1").texts()
    assert texts.keys() == {*FLAGS, "help"}
    assert list(texts) == sorted(texts)
    shown = {
        "v": "4",
        "disabled-metrics": "[a,b]",
        "bind-address": "127.0.0.1",
        "authorization-always-allow-paths": "[/healthz,/readyz,/livez]",
        "kube-api-qps": "50",
        "pod-max-in-unschedulable-pods-duration": "5m0s",
        "leader-elect": "true",
        "allow-metric-labels": "[]",
        "feature-gates": "",
        "version": "false",
    }
    assert {name: texts[name] for name in shown} == shown
