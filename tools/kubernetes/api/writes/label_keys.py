"""matchLabelKeys and mismatchLabelKeys: the API server adds a new pod's own label values to
selectors.

A term of its affinity to pods, or a spread constraint, may name keys instead of values. The API
server writes the values into the term's selector when the pod is created, so that a later change of
the pod's labels changes nothing. A term without a selector selects nothing, and stays so. Mirrors
PrepareForCreate of pods.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..types.api_documents import Document

_OPERATORS = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SPREAD = "topologySpreadConstraints"


def with_label_keys(spec: Document, labels: Mapping[str, str]) -> Document:
    """Returns the spec of a new pod with these labels; unchanged parts are not copied."""
    filled = spec
    if spec.get(_SPREAD):
        filled = {**filled, _SPREAD: [_with_values_of_keys(item, labels) for item in spec[_SPREAD]]}
    affinity = spec.get("affinity") or {}
    of_pods = {
        kind: _affinity(affinity[kind], labels)
        for kind in ("podAffinity", "podAntiAffinity")
        if affinity.get(kind)
    }
    return {**filled, "affinity": {**affinity, **of_pods}} if of_pods else filled


def _affinity(affinity: Document, labels: Mapping[str, str]) -> Document:
    filled = dict(affinity)
    if affinity.get(_REQUIRED):
        filled[_REQUIRED] = [_with_values_of_keys(term, labels) for term in affinity[_REQUIRED]]
    if affinity.get(_PREFERRED):
        filled[_PREFERRED] = [
            {
                **weighted,
                "podAffinityTerm": _with_values_of_keys(
                    weighted.get("podAffinityTerm") or {}, labels
                ),
            }
            for weighted in affinity[_PREFERRED]
        ]
    return filled


def _with_values_of_keys(term: Document, labels: Mapping[str, str]) -> Document:
    """Returns a term or constraint whose selector includes the labels that it names by key."""
    selector = term.get("labelSelector")
    if selector is None:
        return term
    written = selector.get("matchExpressions") or []
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in _OPERATORS.items()
        for key in term.get(field) or ()
        if key in labels
    ]
    if not added:
        return term
    return {**term, "labelSelector": {**selector, "matchExpressions": [*written, *added]}}
