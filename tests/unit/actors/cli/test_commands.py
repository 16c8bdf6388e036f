"""The command itself."""

from __future__ import annotations

import gc
import json
from importlib import metadata
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from berth.actors.cli import main
from berth.config.types import API_VERSION, KIND


def said(*args: str) -> str:
    """Returns the standard output of a command that succeeds."""
    result = CliRunner().invoke(main, list(args))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_help() -> None:
    assert "run" in said("--help")
    assert said("run", "--help") == said("run", "-h")


@pytest.mark.parametrize("group", [[], ["config"]])
def test_a_list_of_commands_says_whole_sentences(group: list[str]) -> None:
    listed = said(*group, "--help").partition("Commands:\n")[2].splitlines()
    assert listed
    assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize("args", [["--version"], ["version"], ["run", "--version"]])
def test_the_versions_of_kubernetes_and_berth(args: list[str]) -> None:
    kubernetes, berth = said(*args).splitlines()
    assert kubernetes == "Kubernetes v1.36.2"
    assert berth == f"berth {metadata.version('berth-scheduler')}"


def test_the_versions_in_detail() -> None:
    raw = said("run", "--version=raw")
    assert raw.startswith('version.Info{Major:"1", Minor:"36", GitVersion:"v1.36.2", ')
    assert json.loads(said("version", "-o", "json"))["kubernetes"] == "v1.36.2"


def test_the_reported_version_cannot_be_another_one() -> None:
    result = CliRunner().invoke(main, ["run", "--version=v1.35.0"])
    assert result.exit_code == 2
    assert "--version: expected v1.36.2 with any suffix, got 'v1.35.0'" in result.output


def test_the_garbage_collector_pauses_while_a_command_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load, collected = metadata.EntryPoint.load, []

    def note(entry: metadata.EntryPoint) -> object:
        collected.append(gc.isenabled())
        return load(entry)

    monkeypatch.setattr(metadata.EntryPoint, "load", note)
    assert "--config" in said("explain", "--help")
    assert (collected, gc.isenabled()) == ([False], True)


def test_commands_are_listed_and_completed_without_loading_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(entry: metadata.EntryPoint) -> None:
        raise AssertionError(f"{entry.name} is loaded")

    monkeypatch.setattr(metadata.EntryPoint, "load", refuse)
    assert "  explain    Explain where a pod would be placed, and why.\n" in said("--help")
    completion = ShellComplete(main, {}, "berth", "_BERTH_COMPLETE")
    assert [item.value for item in completion.get_completions([], "ex")] == ["explain"]


@pytest.mark.parametrize(
    ("word", "says"),
    [("rum", "No such command 'rum'. Did you mean 'run'?"), ("sail", "No such command 'sail'.")],
)
def test_an_unknown_command_is_a_usage_error(word: str, says: str) -> None:
    result = CliRunner().invoke(main, [word])
    assert result.exit_code == 2
    assert result.stderr.endswith(f"Error: {says}\n")


def test_problems_with_flags_are_usage_errors() -> None:
    result = CliRunner().invoke(main, ["run", "--secure-port=70000", "--tls-min-version=1"])
    assert result.exit_code == 2
    assert "--secure-port: expected 0 to 65535, got 70000; --tls-min-version: " in result.stderr


def test_without_an_api_server_the_flags_that_name_one_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    result = CliRunner().invoke(main, ["run"])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: no API server: expected --kubeconfig, --master or")
    file = tmp_path / "scheduler.yaml"
    file.write_text(f"apiVersion: {API_VERSION}\nkind: {KIND}\n")
    result = CliRunner().invoke(main, ["run", "--config", str(file)])
    named = f"expected clientConnection.kubeconfig in {file}, --master or"
    assert result.stderr.splitlines()[-1].startswith(f"Error: no API server: {named}")


def test_the_name_kube_scheduler_means_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/local/bin/kube-scheduler", "--secure-port=-1"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2


def test_flags_are_logged_from_verbosity_1_on_and_those_without_effect_always(
    tmp_path: Path,
) -> None:
    file = tmp_path / "written.yaml"
    args = ["run", f"--write-config-to={file}", "--disable-http2-serving", "--kube-api-qps=7"]
    quiet, loud = (CliRunner().invoke(main, [*args, f"-v={level}"]) for level in (0, 1))
    assert (quiet.exit_code, loud.exit_code) == (0, 0)
    assert "--disable-http2-serving has no effect: berth serves HTTP/1.1 only" in quiet.stderr
    assert "FLAG: " not in quiet.stderr
    assert '] FLAG: --kube-api-qps="7"\n' in loud.stderr
    assert "qps: 7" in file.read_text()
