"""The diagram of the actors on docs/architecture.md, drawn from who makes which message.

An actor sends what the modules of its folder make, or functions of `attempt` that they call, or
methods of what they are given. What an actor sends to itself is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args, get_type_hints

from berth.actors.mailboxes import Mailboxes
from tests.docs.blocks import ROOT

KIND = "flowchart LR"
ACTORS = ROOT / "actors"
SHARED = ACTORS / "attempt"  # makes messages for the actors
MOST_NAMES = 6  # beside an arrow
MESSAGES = {
    message.__name__: (mailbox, "reply" in message.__struct_fields__)
    for mailbox, kind in get_type_hints(Mailboxes).items()
    for message in get_args(get_args(kind)[0])
}


def drawn() -> str:
    """Returns a mermaid block: an arrow from each actor to each other that it sends to."""
    lines = [KIND]
    for sender in sorted(path.parent.name for path in ACTORS.glob("*/actor.py")):
        modules = (ACTORS / sender).rglob("*.py")
        sent = frozenset().union(*(made(path) for path in modules))
        for mailbox in sorted(get_type_hints(Mailboxes)):
            names = sorted(name for name in sent if MESSAGES[name][0] == mailbox != sender)
            if names:
                lines.append(f'    {sender} -- "{_label(names)}" --> {mailbox}')
    return "\n".join([*lines, ""])


@cache
def made(path: Path, name: str = "") -> frozenset[str]:
    """Returns the messages that a module makes: all of it, or its function, class or method of a
    name.
    """
    tree = ast.parse(path.read_text())
    within: ast.AST = tree
    for wanted in filter(None, name.split(".")):
        body = getattr(within, "body", [])
        within = next((part for part in body if getattr(part, "name", "") == wanted), ast.Pass())
    imported = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    messages: set[str] = set()
    for used in _used(within):
        first, _, attribute = used.partition(".")
        module, original = imported.get(first, ("", first))
        if "messages" in module and original in MESSAGES:
            messages.add(original)
        elif attribute:
            messages |= _made_by_shared(original, attribute)
            messages |= _made_by_shared(module.split(".")[-1], f"{original}.{attribute}")
        elif name and not module and used != name:
            messages |= made(path, used)
        elif module:
            messages |= _made_by_shared(module.split(".")[-1], original)
    return frozenset(messages)


def _made_by_shared(module: str, name: str) -> frozenset[str]:
    path = SHARED / f"{module}.py"
    return made(path, name) if path.exists() else frozenset()


def _used(tree: ast.AST) -> Iterator[str]:
    """Yields the names that are called, or given to a call. A method of a field that has the name
    of a parameter is named with the class of the parameter.
    """
    classes = {
        f"self._{node.arg}": ast.unparse(node.annotation)
        for node in ast.walk(tree)
        if isinstance(node, ast.arg) and node.annotation is not None
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                owner = ast.unparse(node.func.value)
                if owner in classes:
                    yield f"{classes[owner]}.{node.func.attr}"
            for part in (node.func, *node.args):
                if isinstance(part, ast.Name) or (
                    isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name)
                ):
                    yield ast.unparse(part)


def _label(names: list[str]) -> str:
    """Returns the first names, with a mark at questions."""
    shown = [f"{name}?" if MESSAGES[name][1] else name for name in names]
    more = [f"and {len(names) - MOST_NAMES} more"] * (len(names) > MOST_NAMES)
    return "<br/>".join([*shown[:MOST_NAMES], *more])
