"""DeviceTaintRules that come, change and go, in a whole cluster in virtual time.

At every moment no device is held by two claims. A pod is marked for deletion once at most, and only
while a rule selects its device. Once all rules are gone, every replica runs with a device.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from berth.config.feature_gates import defaults_of
from berth.config.options import Options
from berth.config.versions import VERSIONS
from berth.tools.cluster.controllers.embedded_access import EmbeddedAccess
from berth.tools.kubernetes.api.types.releases import release_of
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.virtual_time import LoopClock, run_virtually
from tests.kit.devices import (
    DRIVER,
    device_class,
    device_taint_rule,
    request,
    resource_slice,
)
from tests.kit.documents import Document
from tests.kit.embedded import running
from tests.kit.examples import examples
from tests.kit.stores import fresh_store

NODES = ("node-1", "node-2", "node-3")
REPLICAS = 4
RULES = BY_KIND["resource.k8s.io/v1", "DeviceTaintRule"]
OPTIONS = Options(feature_gates=defaults_of(VERSIONS[37]))
MARKED, CANCELLED = "Marking for deletion", "Cancelling deletion"


def deployment() -> Document:
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {
        "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
        "terminationGracePeriodSeconds": 5,
    }
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    selector = {"matchLabels": {"app": "web"}}
    return {
        "metadata": {"name": "web"},
        "spec": {"replicas": REPLICAS, "selector": selector, "template": template},
    }


class Story:
    def __init__(self, access: EmbeddedAccess, rng: Random) -> None:
        self.access = access
        self.rng = rng
        self.selected: set[tuple[str, str]] = set()  # pools and devices that some rule selected
        self.evicted: set[str] = set()

    async def create(self, kind: str, document: Document, version: str = "v1") -> None:
        path = BY_KIND[version, kind].path("default")
        document["metadata"].pop("uid", None)
        await self.access.call("POST", path, dict, document)

    async def every(self, kind: str, version: str = "v1") -> list[Document]:
        path = BY_KIND[version, kind].path()
        listed: dict[str, Any] = await self.access.call("GET", path, dict)
        return list(listed["items"])

    async def furnish(self, tolerated: int | None) -> None:
        v1 = "resource.k8s.io/v1"
        for number in range(1, len(NODES) + 1):
            await self.access.call("POST", "/api/v1/nodes", dict, hollow_node(number))
        for name in NODES:
            await self.create("ResourceSlice", resource_slice(name, "a", "b"), v1)
        await self.create("DeviceClass", device_class(), v1)
        tolerations = (
            [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": tolerated}]
            if tolerated is not None
            else []
        )
        spec = {"devices": {"requests": [request(tolerations=tolerations)]}}
        template = {"metadata": {"name": "gpu"}, "spec": {"spec": spec}}
        await self.create("ResourceClaimTemplate", template, v1)
        await self.create("Deployment", deployment(), "apps/v1")

    async def step(self) -> None:
        rules = await self.every("DeviceTaintRule", RULES.api_version)
        if rules and (len(rules) > 3 or self.rng.random() < 0.5):
            rule = self.rng.choice(rules)["metadata"]["name"]
            if self.rng.random() < 0.3:
                await self.change(rule)
            else:
                await self.access.call("DELETE", RULES.path(name=rule), dict)
            return
        name = f"r{self.rng.randrange(10**6)}"
        selector = self.selector()
        effect = self.rng.choice(("NoExecute", "NoExecute", "NoSchedule", "None"))
        document = device_taint_rule(name, "broken", effect=effect, **selector)
        await self.create("DeviceTaintRule", document, RULES.api_version)

    async def change(self, rule: str) -> None:
        """Gives a rule another selector, and the effect NoExecute."""
        spec = {"deviceSelector": self.selector(), "taint": {"effect": "NoExecute"}}
        body = {
            "spec": {
                **spec,
                "deviceSelector": {**dict.fromkeys(("pool", "device")), **spec["deviceSelector"]},
            }
        }
        await self.access.patch(RULES.path(name=rule), body, dict, "merge")

    def selector(self) -> dict[str, str]:
        selector = {"driver": DRIVER}
        if self.rng.random() < 0.8:
            selector["pool"] = self.rng.choice(NODES)
        if self.rng.random() < 0.5:
            selector["device"] = self.rng.choice("ab")
        pools = [selector["pool"]] if "pool" in selector else NODES
        devices = [selector["device"]] if "device" in selector else "ab"
        self.selected |= {(pool, device) for pool in pools for device in devices}
        return selector

    async def held(self) -> dict[tuple[str, str], str]:
        """Returns the claims that hold devices."""
        holders: dict[tuple[str, str], str] = {}
        for claim in await self.every("ResourceClaim", "resource.k8s.io/v1"):
            allocation = (claim.get("status") or {}).get("allocation") or {"devices": {}}
            for result in allocation["devices"].get("results") or ():
                device = (result["pool"], result["device"])
                assert device not in holders, f"{device} is held twice"
                holders[device] = claim["metadata"]["name"]
        return holders

    async def check(self) -> None:
        await self.held()
        marked: Counter[str] = Counter()
        for event in await self.every("Event"):
            if event["reason"] == "DeviceTaintManagerEviction":
                assert event["message"] in (MARKED, CANCELLED)
                if event["message"] == MARKED:
                    marked[event["involvedObject"]["uid"]] += event.get("count") or 1
        assert not marked or max(marked.values()) == 1, "a pod is marked twice"
        self.evicted |= marked.keys()

    async def settle(self) -> None:
        pods = await self.every("Pod")
        phases = [pod["status"]["phase"] for pod in pods]
        assert phases == ["Running"] * REPLICAS
        assert len(await self.held()) == REPLICAS


async def play(seed: int, tolerated: int | None) -> int:
    rng, clock = Random(seed), LoopClock()
    store = fresh_store()
    store.release = release_of(VERSIONS[37])
    Api(store).seed()
    access = EmbeddedAccess(store)
    story = Story(access, rng)
    async with running(access, clock, Random(1), options=OPTIONS):
        await story.furnish(tolerated)
        await clock.sleep(10)
        await story.settle()
        # Pods may get devices with taints that they tolerate for too short a time, again and again.
        pauses = (0.3, 1.0, 4.0) if tolerated is None else (0.3, 0.6)
        for _ in range(12):
            await story.step()
            for _ in range(rng.randrange(1, 5)):
                await clock.sleep(rng.choice(pauses))
                await story.check()
        for rule in await story.every("DeviceTaintRule", RULES.api_version):
            await access.call("DELETE", RULES.path(name=rule["metadata"]["name"]), dict)
        await clock.sleep(60)
        await story.check()
        await story.settle()
    return len(story.evicted)


@examples(0.1)
@given(st.integers(0, 1 << 32), st.sampled_from((None, 3, 10)))
def test_no_device_is_held_twice_and_pods_are_evicted_once(
    seed: int, tolerated: int | None
) -> None:
    run_virtually(partial(play, seed, tolerated))


def test_such_rules_evict_pods() -> None:
    assert run_virtually(partial(play, 1, None)) > 0
