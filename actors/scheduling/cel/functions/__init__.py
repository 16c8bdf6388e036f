"""The functions of the environment of device selectors in Kubernetes 1.36, by name.

That is cel-go's standard library, its extensions strings (version 2), sets, lists (version 3),
optionals (version 2) and two-variable comprehensions, and Kubernetes' own libraries. The authorizer
is left out: a selector has no variable of its type. Selectors also have `includes`: since 1.36 the
environment for expressions that are stored has it, whatever the gate DRAListTypeAttributes says.
What builds patches has `jsonpatch.escapeKey`.
"""

from __future__ import annotations

from ..declarations import Overload
from . import conversions, formats, kubernetes, lists, operators, strings, timing


def _by_name() -> dict[str, tuple[Overload, ...]]:
    by_name: dict[str, list[Overload]] = {}
    modules = (operators, conversions, strings, lists, timing, kubernetes, formats)
    for overload in (o for module in modules for o in module.OVERLOADS):
        by_name.setdefault(overload.function, []).append(overload)
    return {name: tuple(overloads) for name, overloads in by_name.items()}


FUNCTIONS = _by_name()
FUNCTIONS_OF_SELECTORS = {**FUNCTIONS, "includes": lists.INCLUDES}
FUNCTIONS_OF_PATCHES = {**FUNCTIONS, "jsonpatch.escapeKey": strings.ESCAPE_KEY}
