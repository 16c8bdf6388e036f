"""The form in which Kubernetes stores an object: with its defaults, and without empty fields.

Mirrors what a document becomes when Go reads and writes it. A field that is empty, false or 0 goes,
unless Go tells such a value from none; amounts are written in one way; and each type gets its
defaults wherever it occurs, after its parts have theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .amounts import canonical_text
from .document_cache import cached_by_document
from .schema import TYPES, Field, Shape

Document = dict[str, Any]
Rule = Callable[[Document], None]
_METADATA, _GRACE = TYPES["ObjectMeta"], "deletionGracePeriodSeconds"  # which may be 0
# Where an empty list is not the same as none: it is refused.
_KEPT = {"HPAScalingRules": ("policies",)}


class NormalForm:
    """The defaults of the types, by their names in types.txt.

    `constants` has the fields of a type that have a default. `rules` has functions that fill in
    what depends on other fields; they may change the top level of a document, not its parts. The
    result for a document of the type `recalls` is cached: thousands of pods come from a few
    templates.
    """

    def __init__(
        self, constants: Mapping[str, Document], rules: Mapping[str, Rule], recalls: str
    ) -> None:
        self._constants = {TYPES[name]: tuple(fields.items()) for name, fields in constants.items()}
        self._rules = {TYPES[name]: rule for name, rule in rules.items()}
        self._recalled = TYPES[recalls]
        self._recall = cached_by_document(lambda document: self._object(self._recalled, document))

    def of(self, name: str, document: Document) -> Document:
        """Returns a well-typed document of a type in its normal form."""
        form: Document = self._value(TYPES[name], document)
        return form

    def _value(self, shape: Shape, value: Any) -> Any:
        kind = type(value)
        if shape is _METADATA:  # every object has it, and it has no defaults
            return {key: each for key, each in value.items() if each or key == _GRACE}
        if kind is dict and shape.fields is not None:
            return self._recall(value) if shape is self._recalled else self._object(shape, value)
        if kind is dict and shape.values is not None:
            below = shape.values
            if below.exact is not None:
                return value
            return {key: self._value(below, each) for key, each in value.items()}
        if kind is list and shape.item is not None:
            below = shape.item
            return (
                value if below.exact is not None else [self._value(below, each) for each in value]
            )
        return canonical_text(value) if shape.name == "quantity" else value

    def _object(self, shape: Shape, document: Document) -> Document:
        fields = shape.fields or {}
        filled: Document = {}
        for key, value in document.items():
            field = fields.get(key)
            if field is None or (value and field.shape.exact is type(value)):
                filled[key] = value
            elif value or _says_something(field, value) or key in _KEPT.get(shape.name, ()):
                filled[key] = self._value(field.shape, value)
        for key, default in self._constants.get(shape, ()):
            if key not in filled or (filled[key] in ("", []) and fields[key].required):
                filled[key] = default
        rule = self._rules.get(shape)
        if rule is not None:
            rule(filled)
        return filled


def _says_something(field: Field, value: Any) -> bool:
    """True if Go writes this value of a field, which is false, 0, empty or null."""
    if isinstance(value, dict | list):
        return field.required or field.shape.fields is not None or field.shape.name == "any"
    return field.keeps_zero and value is not None
