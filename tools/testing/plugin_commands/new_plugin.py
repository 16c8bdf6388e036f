"""`berth plugin new`: writes the package of a new plugin."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path

import click

from berth.actors.scheduling.plugins.in_tree import IN_TREE

from .plugin_kinds import KINDS
from .plugin_source import plugin_source, test_source

_TAKEN = {*sys.stdlib_module_names, "berth", "tests"}  # the last has the new plugin's tests
_FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "FOLDER"
version = "0.1.0"
dependencies = ["berth-scheduler"]

[project.entry-points."berth.plugins"]
CLASS = "PACKAGE.plugin:CLASS"

[tool.hatch.build.targets.wheel]
packages = ["PACKAGE"]

[tool.pytest.ini_options]
pythonpath = ["."]
""",
    "PACKAGE/__init__.py": '"""The plugin CLASS."""\n',
    "PACKAGE/py.typed": "",
    "cluster.yaml": """\
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Node
    metadata: {name: near, labels: {topology.kubernetes.io/zone: zone-a}}
    status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}}
  - apiVersion: v1
    kind: Node
    metadata: {name: far, labels: {topology.kubernetes.io/zone: zone-b}}
    status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}}
  - apiVersion: v1
    kind: Pod
    metadata: {name: web}
    spec: {containers: [{name: web, image: nginx, resources: {requests: {cpu: "1", memory: 1Gi}}}]}
""",
    "scheduler.yaml": """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins:
      multiPoint:
        enabled: [{name: CLASS}]
""",
}
# Of these points a profile has one plugin, or the first that answers: more lines of scheduler.yaml.
_INSTEAD = {
    "queue-sort": """\
      queueSort: {enabled: [{name: CLASS}], disabled: [{name: "*"}]}
""",
    "bind": """\
      bind: {enabled: [{name: CLASS}, {name: DefaultBinder}], disabled: [{name: "*"}]}
""",
}


@click.command()
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(tuple(KINDS)),
    default="score",
    show_default=True,
    help="The extension point of the plugin.",
)
def new(name: str, kind: str) -> None:
    """Write a package for a new plugin into the folder NAME.

    It has a typed plugin with its entry point, a test, a cluster and a configuration. Nothing is
    overwritten: the folder must not exist.

    \b
    berth plugin new Cheap
    berth plugin new gang --kind permit
    """
    words = re.findall("[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)
    if "".join(words).lower() != re.sub("[-_]", "", name).lower() or not name[:1].isalpha():
        raise click.UsageError(f"expected a NAME of letters and digits, got {name!r}")
    cls = "".join(word[:1].upper() + word[1:] for word in words)
    if cls in IN_TREE:
        raise click.UsageError(f"{cls} is the name of an in-tree plugin")
    package = "_".join(words).lower()
    if iskeyword(package) or package in _TAKEN or find_spec(package) is not None:
        raise click.UsageError(f"{package} cannot be the name of the package: it is taken")
    folder = Path("-".join(words).lower())
    if folder.exists():
        raise click.UsageError(f"{folder} exists already; nothing is overwritten")
    try:
        for path, text in _files(kind, cls, package, folder.name):
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise click.ClickException(f"{problem.filename}: {problem.strerror}") from None
    module = folder / package / "plugin.py"
    click.echo(f"{folder}/ has the plugin {cls}; next:")
    click.echo(f"  berth explain -f {folder}/cluster.yaml web --plugin {module}:{cls}")
    click.echo(f"  berth plugin check {module}:{cls}")
    click.echo(f"  python -m pytest {folder}")
    click.echo(f"  berth plugin run {module}:{cls}")


def _files(kind: str, cls: str, package: str, folder: str) -> Iterator[tuple[str, str]]:
    """Yields the paths of the files with their texts."""
    files = {**_FILES, "scheduler.yaml": _FILES["scheduler.yaml"] + _INSTEAD.get(kind, "")}
    for path, text in files.items():
        named = text.replace("CLASS", cls).replace("PACKAGE", package).replace("FOLDER", folder)
        yield path.replace("PACKAGE", package), named
    yield f"{package}/plugin.py", plugin_source(kind, cls)
    yield "tests/test_plugin.py", test_source(kind, cls, package)
