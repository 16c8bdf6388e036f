"""Network cards with RDMA as kubernetes-sigs/dranet publishes them. The class is that of its
examples.
"""

from __future__ import annotations

from typing import Any

from .pci_slots import slot

Document = dict[str, Any]
DRIVER = "dra.net"


def classes() -> list[Document]:
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "dranet"},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
        }
    ]


def network_cards(count: int) -> list[Document]:
    """Returns the slice of a node with so many cards beside that of the node's own network."""
    return [{"devices": [_card(number) for number in range(count)]}]


def _card(number: int) -> Document:
    place = slot(number)
    own: dict[str, str | int | bool] = {
        "pciAddress": place.card,
        "ifName": f"eth{number + 1}",
        "mac": f"02:00:00:00:{number // 256:02x}:{number % 256:02x}",
        "mtu": 9000,
        "encapsulation": "ether",
        "alias": "",
        "state": "up",
        "type": "device",
        "ipv4": f"10.200.{number % 256}.2/24",
        "ebpf": False,
        "sriov": True,
        "sriovVfs": 0,
        "virtual": False,
        "rdma": True,
        "rdmaDevice": f"mlx5_{number}",
        "numaNode": place.numa,
        "pciVendor": "Mellanox Technologies",
        "pciDevice": "MT2910 Family [ConnectX-7]",
    }
    attributes = {f"{DRIVER}/{name}": _attribute(value) for name, value in own.items()}
    name = f"pci-{place.card.replace(':', '-').replace('.', '-')}"
    return {"name": name, "attributes": attributes | place.common_attributes}


def _attribute(value: str | int | bool) -> Document:
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"string": value}
