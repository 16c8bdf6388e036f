"""The options by which commands find a live cluster."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from berth.tools.answers.explain.cluster_source import Live, connection_to
from berth.tools.views.commands.explain import explain
from berth.tools.views.commands.whatif import whatif

SWEEP = ("sweep", "--type", "small=node-1:0.10")
NEAR, FAR = "http://near.example.com", "http://far.example.com"


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """A kubeconfig with two contexts; near is the current one."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "near",
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": "me"}} for name in ("near", "far")
        ],
        "clusters": [
            {"name": name, "cluster": {"server": server}}
            for name, server in (("near", NEAR), ("far", FAR))
        ],
        "users": [{"name": "me", "user": {"token": "t"}}],
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_the_context_chooses_the_cluster(kubeconfig: str) -> None:
    assert connection_to(Live(kubeconfig)).server == NEAR
    assert connection_to(Live(kubeconfig, "far")).server == FAR


@pytest.mark.parametrize(
    ("command", "arguments"),
    [(explain, ("web",)), (whatif, ("drain n1",)), (whatif, ("serve",)), (whatif, SWEEP)],
)
@pytest.mark.parametrize("is_named", [True, False])
def test_commands_take_a_context(
    command: click.Command,
    arguments: tuple[str, ...],
    is_named: bool,
    kubeconfig: str,
) -> None:
    named = ("--kubeconfig", kubeconfig) if is_named else ()
    result = CliRunner().invoke(
        command, [*arguments, *named, "--context", "nowhere"], env={"KUBECONFIG": kubeconfig}
    )
    assert result.exit_code in (1, 2)
    assert "nowhere" in result.output
    assert "No such option" not in result.output
