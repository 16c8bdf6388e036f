"""A board with GPUs and network cards: each GPU shares a PCIe root with a card, four of eight pairs
are on each NUMA node. The addresses are those of a DGX H100; its roots are made up.
"""

from __future__ import annotations

from typing import Any

import msgspec

Document = dict[str, Any]
# The buses of GPU and card, and the root above both.
_BUSES = (
    ("1b", "18", "15"),
    ("43", "40", "3d"),
    ("52", "4f", "4c"),
    ("61", "5e", "5b"),
    ("9d", "9a", "97"),
    ("c3", "c0", "bd"),
    ("d1", "ce", "cb"),
    ("df", "dc", "d9"),
)


class PciSlot(msgspec.Struct, frozen=True):
    """The addresses of a GPU and of the card beside it, their common root, their NUMA node."""

    gpu: str
    card: str
    root: str
    numa: int

    @property
    def common_attributes(self) -> Document:
        """What GPU and card have in common, by which claims ask for both at one place."""
        return {
            "resource.kubernetes.io/pcieRoot": {"string": self.root},
            "resource.kubernetes.io/numaNode": {"int": self.numa},
        }


def slot(number: int) -> PciSlot:
    """Returns a slot; from the eighth on, those of a further board, a PCI domain of its own."""
    board, place = divmod(number, len(_BUSES))
    gpu, card, root = _BUSES[place]
    domain = f"{board:04x}"
    numa = int(place >= len(_BUSES) // 2)
    return PciSlot(f"{domain}:{gpu}:00.0", f"{domain}:{card}:00.0", f"pci{domain}:{root}", numa)
