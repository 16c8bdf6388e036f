"""StaleNode: a node whose latest state could not be read. Kubernetes has no counterpart."""

from __future__ import annotations

from ..kube.core import Node


class StaleNode(Node, frozen=True, kw_only=True):
    """A node in its last readable state. Its pods count, but it gets no new pods, because it may
    have been cordoned since.
    """
