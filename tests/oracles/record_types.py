"""Records the fields of a version's types from its lightkube-models, of which one environment has
one version only.

python -m venv /elsewhere && /elsewhere/bin/pip install "lightkube-models>=1.37,<1.38"
.venv/bin/python -m tests.oracles.record_types 1.37 /elsewhere/lib/python*/site-packages
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from berth.tools.kubernetes.api.types.releases import RELEASES
from berth.tools.kubernetes.api.types.schema import Shape

FOLDER = Path(__file__).parent / "types"


def served(version: str) -> Iterator[Shape]:
    """Yields the types that a version serves: those of objects, and what they are made of."""
    types = RELEASES[version].types
    found = {id(of): of for of in types.values() if "apiVersion" in (of.fields or {})}
    waiting = [*found.values()]
    while waiting:
        for field in (waiting.pop().fields or {}).values():
            shape = _innermost(field.shape)
            if shape.fields and id(shape) not in found:
                found[id(shape)] = shape
                waiting.append(shape)
    return (shape for shape in types.values() if id(shape) in found)


def _innermost(shape: Shape) -> Shape:
    below = shape.item or shape.values
    return shape if below is None else _innermost(below)


def recorded(version: str) -> dict[str, dict[str, str]]:
    """Returns the fields of each type, with their types in Python, by the names of the module and
    of the type.
    """
    types = {}
    for line in (FOLDER / f"{version}.txt").read_text(encoding="utf-8").splitlines():
        name, *fields = line.split()
        types[name] = dict(field.split(":", 1) for field in fields)
    return types


def module_of(shape: Shape, elsewhere: dict[str, str]) -> str:
    """Returns the name of the module of a type, such as core_v1."""
    group, version = elsewhere.get(shape.name, shape.api_version).split("/")
    return f"{group.partition('.')[0]}_{version}"


def _fields(text: str, name: str) -> dict[str, str]:
    """Returns the fields of a class, by their names in JSON."""
    (body,) = (
        node.body
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    fields = {}
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [ast.literal_eval(of.value) for of in _keywords(node) if of.arg == "metadata"]
            of_json = names[0].get("json") if names else None
            fields[of_json or node.target.id] = plain(ast.literal_eval(node.annotation))
    return fields


def _keywords(node: ast.AnnAssign) -> list[ast.keyword]:
    return node.value.keywords if isinstance(node.value, ast.Call) else []


def plain(annotation: str) -> str:
    """Returns a type without Optional."""
    return annotation.removeprefix("Optional[").removesuffix("]" * ("Optional" in annotation))


def main(version: str, packages: str) -> None:
    lines = set()
    for shape in served(version):
        module = module_of(shape, {"FieldSelectorRequirement": "meta/v1"})
        path = Path(packages) / "lightkube" / "models" / f"{module}.py"
        if path.exists():
            fields = _fields(path.read_text(encoding="utf-8"), shape.name)
            words = " ".join(f"{name}:{of}" for name, of in sorted(fields.items()))
            lines.add(f"{module}.{shape.name} {words}\n")
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{version}.txt").write_text("".join(sorted(lines)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
