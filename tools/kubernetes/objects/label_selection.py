"""Label selectors of objects as matchers."""

from __future__ import annotations

from berth.actors.scheduling.kube.labels import (
    NOTHING,
    Selector,
    SelectorError,
    from_label_selector,
)
from berth.actors.scheduling.kube.meta import LabelSelector


def selector_from(selector: LabelSelector | None) -> Selector:
    """Returns the selector; an invalid one selects nothing."""
    try:
        return from_label_selector(selector)
    except SelectorError:
        return NOTHING
