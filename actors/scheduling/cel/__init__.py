"""CEL, the language of device selectors, as Kubernetes 1.36 evaluates it. Pure.

`selector` compiles an expression once, and a `Selector` is matched against devices. An `Expression`
is evaluated over named values. Parser, checker and evaluator are part of this package, because a
library would have to provide Kubernetes' types, the optional syntax, the check of types with
attributes of unknown type, and cel-go's costs; regular expressions are matched by RE2. Mirrors
k8s.io/dynamic-resource-allocation/cel, k8s.io/apiserver's pkg/cel and cel-go.
"""

from __future__ import annotations

from .errors import CelError
from .expressions import Expression
from .selectors import Selector, selector

__all__ = ["CelError", "Expression", "Selector", "selector"]
