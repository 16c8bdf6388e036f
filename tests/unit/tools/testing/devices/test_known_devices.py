"""Devices as known drivers publish them: what they are called, and what can be claimed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from berth.testing import Cluster, Devices, decide, device_claim, devices, node, nodes, pod

Document = dict[str, Any]
ROOT = "resource.kubernetes.io/pcieRoot"
NUMA = "resource.kubernetes.io/numaNode"


def published(of: Devices, *, cpu: int = 8) -> dict[str, Document]:
    """Returns the devices on a node by their names."""
    slices = [each for each in of.on([node("n", cpu=cpu)]) if each["kind"] == "ResourceSlice"]
    return {each["name"]: each for of in slices for each in of["spec"].get("devices", ())}


def profile(name: str) -> str:
    return f"device.attributes['gpu.nvidia.com'].profile == '{name}'"


def test_gpus_are_published_as_by_their_driver() -> None:
    found = published(devices("nvidia-h100"))
    assert list(found) == [f"gpu-{number}" for number in range(8)]
    attributes = found["gpu-3"]["attributes"]
    assert attributes["type"] == {"string": "gpu"}
    assert attributes["productName"] == {"string": "NVIDIA H100 80GB HBM3"}
    assert attributes["cudaComputeCapability"] == {"version": "9.0.0"}
    assert attributes["uuid"]["string"].startswith("GPU-")
    assert attributes[ROOT]["string"] == "pci0000:5b"
    assert found["gpu-3"]["capacity"] == {"memory": {"value": "81559Mi"}}
    uuids = {each["attributes"]["uuid"]["string"] for each in found.values()}
    assert len(uuids) == 8


def test_a_gpu_that_can_be_divided_shares_its_counters() -> None:
    gpus = devices("nvidia-h100", count=1, mig=True)
    documents = gpus.on([node("n")])
    counters, offered = (each["spec"] for each in documents if each["kind"] == "ResourceSlice")
    (counter_set,) = counters["sharedCounters"]
    assert counter_set["name"] == "gpu-0-counter-set"
    assert counter_set["counters"]["multiprocessors"] == {"value": "132"}
    assert {f"memory-slice-{number}" for number in range(8)} < set(counter_set["counters"])
    assert "devices" not in counters
    assert counters["pool"] == {"name": "n", "generation": 1, "resourceSliceCount": 2}
    by_name = {each["name"]: each for each in offered["devices"]}
    assert by_name["gpu-0"]["consumesCounters"][0]["counters"] == counter_set["counters"]
    part = by_name["gpu-0-mig-3g40gb-9-4"]
    assert part["attributes"]["profile"] == {"string": "3g.40gb"}
    assert part["attributes"]["parentUUID"] == by_name["gpu-0"]["attributes"]["uuid"]
    assert part["attributes"][NUMA] == {"int": 0}
    assert part["capacity"]["multiprocessors"] == {"value": "60"}
    (consumed,) = part["consumesCounters"]
    assert {name for name in consumed["counters"] if "slice" in name} == {
        f"memory-slice-{number}" for number in (4, 5, 6, 7)
    }


def test_a_gpu_may_have_been_divided_beforehand() -> None:
    found = published(devices("nvidia-h100", count=1, mig=["3g.40gb", "2g.20gb", "1g.10gb"]))
    assert list(found) == [
        "gpu-0-mig-3g40gb-9-0",
        "gpu-0-mig-2g20gb-14-4",
        "gpu-0-mig-1g10gb-19-6",
    ]
    assert found["gpu-0-mig-2g20gb-14-4"]["capacity"]["memorySlice5"] == {"value": "1"}
    assert found["gpu-0-mig-1g10gb-19-6"]["attributes"]["uuid"]["string"].startswith("MIG-")


def test_cpus_are_grouped_by_numa_node() -> None:
    found = published(devices("cpu"), cpu=9)
    assert {name: each["capacity"]["dra.cpu/cpu"]["value"] for name, each in found.items()} == {
        "cpudevnuma000": "5",
        "cpudevnuma001": "4",
    }
    second = found["cpudevnuma001"]
    assert second["allowMultipleAllocations"] is True
    for name in ("resource.kubernetes.io/numaNode", "dra.cpu/numaNodeID", "dra.net/numaNode"):
        assert second["attributes"][name] == {"int": 1}
    assert second["attributes"]["dra.cpu/numCPUs"] == {"int": 4}


def test_network_cards_sit_beside_gpus() -> None:
    cards, gpus = published(devices("nic")), published(devices("nvidia-h100"))
    assert list(cards)[:2] == ["pci-0000-18-00-0", "pci-0000-40-00-0"]
    first = cards["pci-0000-18-00-0"]["attributes"]
    assert first["dra.net/ifName"] == {"string": "eth1"}
    assert first["dra.net/rdma"] == {"bool": True}
    assert first["dra.net/sriov"] == {"bool": True}
    assert first["dra.net/sriovVfs"] == {"int": 0}
    for name in (ROOT, NUMA):
        assert [each["attributes"][name] for each in cards.values()] == [
            each["attributes"][name] for each in gpus.values()
        ]
    assert [gpus[f"gpu-{number}"]["attributes"][NUMA]["int"] for number in (0, 3, 4)] == [0, 0, 1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: devices("tpu"), "expected cpu, nic or nvidia-h100, got 'tpu'"),
        (lambda: devices("nic", mig=True), "nic: mig: expected an nvidia GPU"),
        (lambda: devices("nvidia-h100", mig=["9g.90gb"]), r"mig: expected one of 1g\.10gb, .*9g"),
        (lambda: devices("nvidia-h100", mig=["4g.40gb"] * 2), "mig: no room for 4g.40gb"),
        (lambda: devices("cpu", count=0), "count: expected 1 or more, got 0"),
    ],
)
def test_what_no_driver_has_is_refused(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong()


def test_a_decision_takes_devices() -> None:
    gpus = devices("nvidia-h100", nodes=["node-2"], count=1)
    gpu = device_claim("gpu", "gpu.nvidia.com")
    assert decide(pod("a", devices=[gpu]), nodes(2), gpus, gpu).node == "node-2"
    own = device_claim("own", "gpu.nvidia.com", template=True)
    assert decide(pod("c", devices=[own]), nodes(2), gpus, own).node == "node-2"
    two = device_claim("two", "gpu.nvidia.com", count=2)
    assert decide(pod("b", devices=[two]), nodes(2), gpus, two).rejections["node-2"] == [
        "cannot allocate all claims"
    ]


async def test_parts_of_gpus_are_given_as_long_as_there_is_room(cluster: Cluster) -> None:
    await cluster.add(nodes(1), devices("nvidia-h100", count=1, mig=True))
    half = device_claim("half", "mig.nvidia.com", selector=profile("3g.40gb"), template=True)
    whole = device_claim("whole", "gpu.nvidia.com")
    await cluster.add(half, whole, *(pod(f"p{number}", devices=[half]) for number in range(3)))
    await cluster.settled()
    await cluster.add(pod("q", devices=[whole]))
    await cluster.settled()
    given = [cluster.devices_of(f"p{number}") for number in range(3)]
    assert sorted(given) == [[], ["node-1/gpu-0-mig-3g40gb-9-0"], ["node-1/gpu-0-mig-3g40gb-9-4"]]
    waiting = f"p{given.index([])}"
    assert cluster.pod(waiting).pending_because("cannot allocate all claims")
    assert cluster.pod("q").pending()
    for number in range(3):
        await cluster.delete("Pod", f"p{number}")
    await cluster.settled()
    assert cluster.devices_of("q") == ["node-1/gpu-0"]


async def test_a_gpu_comes_with_the_card_beside_it(cluster: Cluster) -> None:
    await cluster.add(nodes(1), devices("nvidia-h100"), devices("nic"))
    classes = {"gpu": "gpu.nvidia.com", "nic": "dranet"}
    pairs = [device_claim(f"pair-{number}", classes, same=ROOT) for number in range(9)]
    await cluster.add(*pairs, *(pod(each["metadata"]["name"], devices=[each]) for each in pairs))
    await cluster.settled()
    given = sorted(filter(None, (cluster.devices_of(f"pair-{number}") for number in range(9))))
    assert len(given) == 8
    assert given[0] == ["node-1/gpu-0", "node-1/pci-0000-18-00-0"]


async def test_cpus_are_shared_by_their_capacity(cluster: Cluster) -> None:
    await cluster.add(nodes(1, cpu=16), devices("cpu"))
    three = [
        device_claim(f"c{number}", "dra.cpu", capacity={"dra.cpu/cpu": 6}) for number in range(3)
    ]
    await cluster.add(*three, *(pod(each["metadata"]["name"], devices=[each]) for each in three))
    await cluster.settled()
    given = [cluster.devices_of(f"c{number}") for number in range(3)]
    assert sorted(given) == [[], ["node-1/cpudevnuma000"], ["node-1/cpudevnuma001"]]


async def test_the_driver_follows_the_nodes(cluster: Cluster) -> None:
    await cluster.add(nodes(1), devices("nic", count=2))
    await cluster.settled()
    await cluster.add(node("later"))
    await cluster.settled()
    owners = [each["spec"]["nodeName"] for each in cluster.all("ResourceSlice")]
    assert sorted(owners) == ["later", "node-1"]
    await cluster.delete("Node", "node-1")
    await cluster.settled()
    assert [each["spec"]["nodeName"] for each in cluster.all("ResourceSlice")] == ["later"]


@pytest.mark.cluster(nodes=1, drivers=False)
async def test_without_drivers_slices_stay_as_they_are_added(cluster: Cluster) -> None:
    await cluster.add(devices("nic", count=2))
    await cluster.add(node("later"))
    (added,) = cluster.all("ResourceSlice")
    await cluster.delete("ResourceSlice", added["metadata"]["name"])
    await cluster.settled()
    assert not cluster.all("ResourceSlice")
    assert cluster.get("DeviceClass", "dranet")
