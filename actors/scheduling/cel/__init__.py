"""CEL, the language of device selectors, as Kubernetes 1.36 evaluates it. Pure.

`selector` compiles an expression once, and a `Selector` is matched against devices: `matches` says
whether a device is selected, or raises CelError, and depends on nothing but its arguments, so its
callers keep the answers. A selector that cannot be compiled has an `error`; upstream ends the
attempt with it, even if an evaluation would never have come to the wrong part. An `Expression` is
evaluated over named values, as admission policies need.

An expression passes lexer, parser (with macros), checker, validation of literals, and evaluator,
which turns the tree into closures. functions/ is a table of signatures with the code and the cost
of each overload. Mirrors k8s.io/dynamic-resource-allocation/cel, k8s.io/apiserver's pkg/cel and
cel-go, with the environment for stored expressions.

The room has its own parser, checker and evaluator, because no library for Python has what
Kubernetes needs. cel-python has no optional syntax and no check of types. The bindings of the C++
and the Rust implementation cannot limit the cost of an evaluation, and the first of them adds 50 MB
of machine code. One dependency remains: google-re2, for regular expressions in Go's syntax that are
matched in linear time.

Every evaluation counts its cost in cel-go's units and ends at 1,000,000. That cost does not bound
the time: a pattern that costs 15 units may take 40 ms to compile, and a text of megabytes may be
read for 1. So an evaluation also counts what it does, in units of about half a microsecond, and
what it makes, in bytes (Budget). It ends with the same error after 100,000 units, which is a
twentieth of a second, or 48 MB. RE2 cannot be interrupted: the memory of a pattern is limited to
512 KB, and its compilation and each search are counted (regex.py). Compilation is limited in the
same way. All selectors of a decision together may take 250,000 units; then the attempt of this pod
ends, what was found out is kept, and the next attempt goes on from there. Compiled selectors are
kept up to 64 MB.
"""

from __future__ import annotations

from .errors import CelError
from .expressions import Expression
from .selectors import Selector, selector

__all__ = ["CelError", "Expression", "Selector", "selector"]
