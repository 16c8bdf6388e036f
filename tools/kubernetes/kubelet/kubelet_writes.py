"""What a kubelet writes: the statuses of its pods and its node, and events about them."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..objects.structs import Document
from ..objects.writes import Create


class StatusPatch(msgspec.Struct, frozen=True):
    """A strategic merge patch of the status of a pod or node.

    With a `version`, it is refused if the object has changed since.
    """

    kind: Literal["Pod", "Node"]
    namespace: str
    name: str
    uid: str
    status: Document
    version: str = ""


KubeletWrite = StatusPatch | Create
