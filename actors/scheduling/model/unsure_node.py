"""UnsureNode: a node of which a later state could not be read. Kubernetes has no name for it."""

from __future__ import annotations

from berth.actors.scheduling.kube.core import Node


class UnsureNode(Node, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """As the node was read last. The pods on it count; it takes no new ones, because it may be
    cordoned by now.
    """
