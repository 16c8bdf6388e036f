"""The source of a new plugin and of its test, from a class and a function of this package."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Collection, Iterable

import berth.plugin
import berth.testing

from .plugin_kind_tests import TESTS
from .plugin_kinds import KINDS

LINE = 88  # as formatters wrap by default
_STANDARD = {"Counter": "collections", "Sequence": "collections.abc", "Any": "typing"}


def plugin_source(kind: str, name: str) -> str:
    """Returns the module of a plugin of a kind and a name."""
    source = _named(inspect.getsource(KINDS[kind]), kind, name)
    return f"{_imports(source, 'berth.plugin', berth.plugin.__all__)}\n\n\n{source}"


def test_source(kind: str, name: str, package: str) -> str:
    """Returns the module of the tests of that plugin, which is in a package of its own."""
    source = inspect.getsource(TESTS[kind])
    body = _named(source.partition("\n")[2], kind, name)
    tests = (
        f"def test_{package}() -> None:\n{body}\n\n"
        f"def test_its_contracts() -> None:\n    check_plugin({name}, examples=5)\n"
    )
    imports = _imports(tests, "berth.testing", berth.testing.__all__)
    return f"{imports}\n\nfrom {package}.plugin import {name}\n\n\n{tests}"


def _named(source: str, kind: str, name: str) -> str:
    return re.sub(rf"\b{KINDS[kind].__name__}\b", name, source)


def _imports(source: str, module: str, offered: Collection[str]) -> str:
    """Returns the imports of a source, in the order of formatters."""
    words = {each.id for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Name)}
    standard = [
        f"from {of} import {name}\n" for name, of in sorted(_STANDARD.items()) if name in words
    ]
    ours = _line(module, words & set(offered))
    return "".join((*sorted(standard), "\n" * bool(standard), ours))


def _line(module: str, names: Iterable[str]) -> str:
    ordered = sorted(names, key=lambda name: (not name.isupper(), name.islower(), name.lower()))
    line = f"from {module} import {', '.join(ordered)}"
    if len(line) <= LINE:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in ordered) + ")"
