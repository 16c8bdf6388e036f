"""Several errors in one text, as Kubernetes' errors.NewAggregate joins them."""

from __future__ import annotations

from collections.abc import Iterable


def joined_errors(errors: Iterable[str]) -> str:
    """Returns the distinct errors in one text; "" if there are none."""
    distinct = [*dict.fromkeys(errors)]
    return f"[{', '.join(distinct)}]" if len(distinct) > 1 else "".join(distinct)
