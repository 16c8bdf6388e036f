"""The command itself."""

from __future__ import annotations

from click.testing import CliRunner

from berth.actors.cli import main


def test_version_and_help() -> None:
    assert "berth" in CliRunner().invoke(main, ["--version"]).output
    assert CliRunner().invoke(main, ["--help"]).exit_code == 0


def test_an_unknown_command_is_a_usage_error() -> None:
    result = CliRunner().invoke(main, ["sail"])
    assert result.exit_code == 2
    assert "No such command 'sail'" in result.output
