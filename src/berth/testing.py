"""A cluster in a test: everything that tests of your own import. See docs/testing.md.

The names in `__all__` are stable: names stay, and keep their parameters, within a minor version.
"""

from __future__ import annotations

from berth.actors.client.rest import ApiError
from berth.tools.answers.manifests.manifest_files import ManifestError
from berth.tools.cluster.faults.vocabulary import Fault, FaultError
from berth.tools.testing.blocking import BlockingCluster
from berth.tools.testing.builders import (
    budget,
    claim,
    deployment,
    device_claim,
    job,
    node,
    nodes,
    pod,
    priority_class,
    stateful_set,
)
from berth.tools.testing.cluster import Cluster, Livelock, NotReachedError
from berth.tools.testing.decisions import PodDecision, decide
from berth.tools.testing.devices.known_devices import Devices, devices
from berth.tools.testing.plugins.fake_handle import (
    FakeHandle,
    RecordedEvent,
    RecordedRequest,
    pod_info,
)
from berth.tools.testing.plugins.plugin_check import PluginCheckError, check_plugin
from berth.tools.testing.pods import Finding, Pods
from berth.tools.testing.recorded_calls import PluginCall
from berth.tools.testing.served import ServedCluster
from berth.tools.testing.simulation.replays import replay
from berth.tools.testing.simulation.simulation import Story
from berth.tools.testing.virtual_time import VirtualLoop, run_virtually

__all__ = [
    "ApiError",
    "BlockingCluster",
    "Cluster",
    "Devices",
    "FakeHandle",
    "Fault",
    "FaultError",
    "Finding",
    "Livelock",
    "ManifestError",
    "NotReachedError",
    "PluginCall",
    "PluginCheckError",
    "PodDecision",
    "Pods",
    "RecordedEvent",
    "RecordedRequest",
    "ServedCluster",
    "Story",
    "VirtualLoop",
    "budget",
    "check_plugin",
    "claim",
    "decide",
    "deployment",
    "device_claim",
    "devices",
    "job",
    "node",
    "nodes",
    "pod",
    "pod_info",
    "priority_class",
    "replay",
    "run_virtually",
    "stateful_set",
]
