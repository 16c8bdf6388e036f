"""The devices of a driver by the name of a model: classes, and what each node has of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from berth.actors.scheduling.kube.quantity import value

from ...kubernetes.devices.inventory import Pool, with_pool
from ...kubernetes.objects.structs import Node, read
from . import cpus, network_cards, nvidia_gpus

Document = dict[str, Any]
MODELS = ("cpu", "nic", "nvidia-h100")


class Devices(msgspec.Struct, frozen=True):
    """What one driver offers: its device classes, and on each of the `nodes` with these names, or
    on every node, the `contents` of its slices.
    """

    driver: str
    classes: list[Document]
    contents: Callable[[Node], list[Document]]
    nodes: tuple[str, ...] = ()

    def pool(self, node: Node) -> Pool | None:
        """Returns the driver's pool on a node, None if there is none."""
        name = node.metadata.name
        if self.nodes and name not in self.nodes:
            return None
        base = {"driver": self.driver, "pool": {"name": name}, "nodeName": name}
        return Pool(self.driver, name, node, [{**base, **each} for each in self.contents(node)])

    def on(self, nodes: Iterable[Document]) -> list[Document]:
        """Returns the classes, and the slices of these nodes, as documents."""
        pools = [pool for node in nodes if (pool := self.pool(read(node, Node)))]
        return [*self.classes, *(each for pool in pools for each in _slices(pool))]


def devices(
    model: str,
    *,
    nodes: Sequence[str] = (),
    count: int | None = None,
    mig: bool | Sequence[str] = False,
) -> Devices:
    """Returns devices as the driver of this model publishes them on the `nodes` of these names, by
    default on every node.

        nvidia-h100   `count` GPUs (8). With `mig=True` each can be divided, and its parts share its
                      counters; a list of profiles, such as ["3g.40gb", "1g.10gb"], divides each
                      beforehand. Classes: gpu.nvidia.com, mig.nvidia.com.
        cpu           the node's CPUs on `count` NUMA nodes (2). Class: dra.cpu.
        nic           `count` network cards with RDMA (8), each on the PCIe root of a GPU. Class:
                      dranet.

    Raises ValueError.
    """
    if count is not None and count < 1:
        raise ValueError(f"count: expected 1 or more, got {count}")
    if mig and model in MODELS and not model.startswith("nvidia"):
        raise ValueError(f"{model}: mig: expected an nvidia GPU")
    on = tuple(nodes)
    match model:
        case "nvidia-h100":
            contents = partial(_gpus, count=count or 8, mig=mig)
            contents(Node())  # so that what is wrong with the profiles is said here
            return Devices(nvidia_gpus.DRIVER, nvidia_gpus.classes(), contents, on)
        case "cpu":
            return Devices(cpus.DRIVER, cpus.classes(), partial(_cpus, count=count or 2), on)
        case "nic":
            slices = network_cards.network_cards(count or 8)
            return Devices(network_cards.DRIVER, network_cards.classes(), lambda _: slices, on)
        case _:
            *most, last = MODELS
            raise ValueError(f"expected {', '.join(most)} or {last}, got {model!r}")


def pools(offered: Iterable[Devices], nodes: Iterable[Node]) -> list[Pool]:
    """Returns all pools of these nodes."""
    listed = list(nodes)
    return [pool for each in offered for node in listed if (pool := each.pool(node))]


def _gpus(node: Node, count: int, mig: bool | Sequence[str]) -> list[Document]:
    name = node.metadata.name
    if mig is False:
        return nvidia_gpus.whole_gpus(name, count)
    if mig is True:
        return nvidia_gpus.divisible_gpus(name, count)
    return nvidia_gpus.divided_gpus(name, count, mig)


def _cpus(node: Node, count: int) -> list[Document]:
    total = node.status.capacity.get("cpu", "0")
    return cpus.cpus(count, value(total))


def _slices(pool: Pool) -> Iterable[Document]:
    for number, spec in enumerate(pool.specs):
        name = f"{pool.name}-{pool.driver}-{number}"
        yield {**with_pool(spec, pool.name, 1, len(pool.specs)), "metadata": {"name": name}}
