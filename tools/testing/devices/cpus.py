"""CPUs as kubernetes-sigs/dra-driver-cpu publishes them by default: a device for each NUMA node,
which many claims share by its capacity.
"""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]
DRIVER = "dra.cpu"
CAPACITY = "dra.cpu/cpu"


def classes() -> list[Document]:
    """Returns the class of the driver's manifests."""
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": DRIVER},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
        }
    ]


def cpus(numa_nodes: int, total: int) -> list[Document]:
    """Returns the slice of a node whose CPUs are on so many NUMA nodes, each in a socket."""
    each, rest = divmod(total, numa_nodes)
    sizes = [each + (number < rest) for number in range(numa_nodes)]
    return [{"devices": [_numa_node(number, size) for number, size in enumerate(sizes) if size]}]


def _numa_node(number: int, size: int) -> Document:
    attributes: Document = {
        "resource.kubernetes.io/numaNode": {"int": number},
        "dra.cpu/socketID": {"int": number},
        "dra.cpu/smtEnabled": {"bool": True},
        "dra.cpu/numCPUs": {"int": size},
        "dra.net/numaNode": {"int": number},
        "dra.cpu/numaNodeID": {"int": number},
    }
    return {
        "name": f"cpudevnuma{number:03}",
        "attributes": attributes,
        "capacity": {CAPACITY: {"value": str(size)}},
        "allowMultipleAllocations": True,
    }
