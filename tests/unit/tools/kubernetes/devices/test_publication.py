"""Which slices the hollow driver writes, and when."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from berth.actors.scheduling.kube.devices import ResourceSlice
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.tools.kubernetes.devices.inventory import Pool
from berth.tools.kubernetes.devices.publication import Publish, Withdraw, publication
from berth.tools.kubernetes.objects.structs import Node, read
from tests.kit.documents import Document

NODE = Node(metadata=ObjectMeta(name="n1", uid="uid-n1"))
DRIVER = "d.com"


def pool(*slices: Sequence[str], node: Node | None = NODE, name: str = "n1") -> Pool:
    """Returns a pool with a slice for each of these lists of devices."""
    specs = [
        {"driver": DRIVER, "nodeName": name, "devices": [{"name": device} for device in devices]}
        for devices in slices
    ]
    return Pool(DRIVER, name, node, specs)


class Server:
    """A server that keeps the slices as an API server does."""

    def __init__(self) -> None:
        self.slices: dict[str, Document] = {}
        self.version = 0

    def publish(self, *pools: Pool) -> list[Publish | Withdraw]:
        slices = [read(document, ResourceSlice) for document in self.slices.values()]
        writes = publication(pools, slices)
        for write in writes:
            match write:
                case Publish(document):
                    self.version += 1
                    metadata = {**document["metadata"], "resourceVersion": str(self.version)}
                    name = metadata["name"]
                    have = self.slices.get(name)
                    version = None if have is None else have["metadata"]["resourceVersion"]
                    assert document["metadata"].get("resourceVersion") == version
                    metadata["uid"] = f"uid-{name}"
                    self.slices[name] = {**document, "metadata": metadata}
                case Withdraw(name, uid):
                    assert self.slices.pop(name)["metadata"]["uid"] == uid
        return writes

    def numbers(self) -> dict[str, tuple[int, int]]:
        """Returns the generation and the number of slices of each slice's pool."""
        return {
            name: (each["spec"]["pool"]["generation"], each["spec"]["pool"]["resourceSliceCount"])
            for name, each in self.slices.items()
        }


@pytest.fixture
def server() -> Server:
    return Server()


def test_a_pool_is_published_once_and_belongs_to_its_node(server: Server) -> None:
    server.publish(pool(["a"], ["b"]))
    assert server.numbers() == {"n1-d.com-0": (1, 2), "n1-d.com-1": (1, 2)}
    (owner,) = server.slices["n1-d.com-0"]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", "n1", "uid-n1")
    assert server.publish(pool(["a"], ["b"])) == []


def test_a_change_raises_the_generation_of_all_slices_of_the_pool(server: Server) -> None:
    other = pool(["z"], name="n2")
    server.publish(pool(["a"], ["b"]), other)
    server.publish(pool(["a"], ["b", "c"]), other)
    assert server.numbers() == {"n1-d.com-0": (2, 2), "n1-d.com-1": (2, 2), "n2-d.com-0": (1, 1)}
    server.publish(pool(["a"]), other)
    assert server.numbers() == {"n1-d.com-0": (3, 1), "n2-d.com-0": (1, 1)}


def test_the_slices_of_a_node_that_goes_are_withdrawn(server: Server) -> None:
    server.publish(pool(["a"]), pool(["b"], name="n2"))
    (write,) = server.publish(pool(["a"]))
    assert isinstance(write, Withdraw)
    assert list(server.slices) == ["n1-d.com-0"]
    server.publish()
    assert not server.slices


def test_a_node_of_the_same_name_gets_its_own_slices(server: Server) -> None:
    server.publish(pool(["a"]))
    again = Node(metadata=ObjectMeta(name="n1", uid="new"))
    server.publish(pool(["a"], node=again))
    (owner,) = server.slices["n1-d.com-0"]["metadata"]["ownerReferences"]
    assert owner["uid"] == "new"


def test_an_edited_slice_stays_until_its_pool_changes(server: Server) -> None:
    server.publish(pool(["a"]))
    edited = server.slices["n1-d.com-0"]
    spec = {**edited["spec"], "devices": [{"name": "a", "taints": [{"key": "broken"}]}]}
    server.slices["n1-d.com-0"] = {**edited, "spec": spec}
    assert server.publish(pool(["a"])) == []
    server.publish(pool(["a", "b"]))
    devices = server.slices["n1-d.com-0"]["spec"]["devices"]
    assert devices == [{"name": "a"}, {"name": "b"}]


def test_a_deleted_slice_is_published_again(server: Server) -> None:
    server.publish(pool(["a"], ["b"]))
    del server.slices["n1-d.com-0"]
    server.publish(pool(["a"], ["b"]))
    assert server.numbers() == {"n1-d.com-0": (2, 2), "n1-d.com-1": (2, 2)}


def test_the_slices_of_other_drivers_are_left_alone(server: Server) -> None:
    pool_ = {"name": "n1", "generation": 7, "resourceSliceCount": 1}
    server.slices["mine"] = {
        "metadata": {"name": "mine", "uid": "u"},
        "spec": {"driver": DRIVER, "pool": pool_, "nodeName": "n1"},
    }
    assert server.publish() == []


def test_devices_on_the_network_belong_to_no_node(server: Server) -> None:
    server.publish(pool(["a"], node=None, name="rack/1"))
    assert "ownerReferences" not in server.slices["rack-1-d.com-0"]["metadata"]
